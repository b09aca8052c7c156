"""Names in `_delta_log`: parsed into values and built from them; the last-checkpoint pointer."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

LOG_FOLDER = "_delta_log/"
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"

# Hadoop's checksum of it on local disks: wrong, and removed, as soon as we write the file.
LAST_CHECKPOINT_CHECKSUM = f"{LOG_FOLDER}._last_checkpoint.crc"
MAX_VERSION = 2**63 - 1

# Folders below a table's root in which a transaction of ours works on a log of its own.
STAGED_PREFIX = "tx-"

# Folders below a table's root into which one write by Spark puts its files.
WRITE_PREFIX = "w-"

_V = r"(?P<version>\d{20})"
_C = rf"{_V}\.checkpoint"


_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("commit", re.compile(rf"{_V}\.json")),
    ("checkpoint", re.compile(rf"{_C}\.parquet")),
    (
        "multipart",
        re.compile(rf"{_C}\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet"),
    ),
    (
        "v2",
        re.compile(rf"{_C}\.(?P<uuid>[0-9a-fA-F-]{{36}})\.(?P<format>json|parquet)"),
    ),
    ("compaction", re.compile(rf"{_V}\.(?P<last>\d{{20}})\.compacted\.json")),
    ("checksum", re.compile(rf"{_V}\.crc")),
)


class LogFileKind(enum.StrEnum):
    """What a file in `_delta_log` is."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    MULTIPART = "multipart"
    V2 = "v2"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """A file of the log, by its name."""

    version: int
    kind: LogFileKind
    name: str
    part: int = 0
    parts: int = 0
    last_version: int = 0

    @property
    def key(self) -> str:
        """The object's key below the table's root."""
        return LOG_FOLDER + self.name

    @classmethod
    def parse(cls, name: str) -> LogFile | None:
        """Return what `name` (without folder) is, or None for a stranger."""
        for kind, pattern in _PATTERNS:
            found = pattern.fullmatch(name)
            if found is None or not name.isascii():
                continue
            groups = found.groupdict()
            version = int(groups["version"])
            last = int(groups["last"]) if "last" in groups else version
            if max(version, last) > MAX_VERSION or last < version:
                return None
            part, parts = int(groups.get("part") or 0), int(groups.get("parts") or 0)
            return cls(version, LogFileKind(kind), name, part, parts, last)
        return None


def commit_name(version: int) -> str:
    """Return the file name of a commit: twenty digits."""
    return f"{version:020d}.json"


def commit_key(version: int) -> str:
    """Return the key of a commit below the table's root."""
    return LOG_FOLDER + commit_name(version)


def checkpoint_path(version: int) -> str:
    """Return the key of a classic checkpoint below the table's root."""
    return f"{LOG_FOLDER}{version:020d}.checkpoint.parquet"


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
