"""`_last_checkpoint`: the hint where a reader begins, with Spark's key order and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """Which checkpoint is the newest, and how big it is."""

    version: int
    size: int
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    parts: int | None = None


def encode_hint(hint: LastCheckpoint) -> bytes:
    """Return the file's bytes: version and size first, so that a torn read stays safe."""
    fields: dict[str, Any] = {"version": hint.version, "size": hint.size}
    if hint.parts is not None and hint.parts > 1:
        fields["parts"] = hint.parts
    if hint.size_in_bytes is not None:
        fields["sizeInBytes"] = hint.size_in_bytes
    if hint.num_of_add_files is not None:
        fields["numOfAddFiles"] = hint.num_of_add_files
    fields["checksum"] = checksum(fields)
    return msgspec.json.encode(fields) + b"\n"


def decode_hint(data: bytes) -> LastCheckpoint | None:
    """Return the hint, or None where the file cannot be trusted: it is only ever a hint."""
    try:
        tree = msgspec.json.decode(data)
        # inside, for this walks the tree: one that could be read may be too deep for it
        is_whole = isinstance(tree, dict) and _is_intact(tree)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    if not is_whole:
        return None
    version, size = _whole(tree.get("version")), _whole(tree.get("size"))
    if version is None or size is None:
        return None
    optional = (_whole(tree.get(name)) for name in ("sizeInBytes", "numOfAddFiles", "parts"))
    return LastCheckpoint(version, size, *optional)


def checksum(tree: dict[str, Any]) -> str:
    """Return the MD5 that Delta defines over all values and their places but the checksum's."""
    rest = {name: value for name, value in tree.items() if name != "checksum"}
    text = ",".join(sorted(f"{path}={value}" for path, value in _leaves(rest, "")))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _is_intact(tree: dict[str, Any]) -> bool:
    return "checksum" not in tree or tree["checksum"] == checksum(tree)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    joined = f"{path}+" if path else ""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f'{joined}"{_percent(name)}"')
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{joined}{number}")
    elif isinstance(value, str):
        yield path, f'"{_percent(value)}"'
    else:
        yield path, msgspec.json.encode(value).decode()


def _percent(text: str) -> str:
    return quote(text, safe="-._~")


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
