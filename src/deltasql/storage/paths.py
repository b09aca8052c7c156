"""Keys of a store and paths of a log, made safe before anything is done with them. Pure.

Identity of a file is its path verbatim; what is decoded here serves only to find the object.

What may be a key: the one check that every store applies before it does anything. A key that
passes cannot leave the root of a store by its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from deltasql.errors import BadArgumentError, BadUriError, UnsafePathError
from deltasql.storage.location import parse_location, quote_path

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

# besides control characters, what Hive and Spark do not let into a directory name
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def check_key(key: str) -> str:
    """Return the key as it is.

    Raises:
        UnsafePathError: it is absolute, has an empty, `.` or `..` segment, holds a NUL, or is not
            text that UTF-8 can carry.
    """
    if not key:
        raise UnsafePathError("An empty key names no object.")
    if "\0" in key:
        raise UnsafePathError(f"The key {key!r} holds a NUL character.", key=key)
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            raise UnsafePathError(
                f"The key {key!r} has the segment {segment!r}, which may lead outside the table.",
                key=key,
            )
    return _encodable(key)


def check_prefix(prefix: str) -> str:
    """Return the prefix of a listing as it is; the empty one means everything."""
    if not prefix:
        return prefix
    check_key(prefix.removesuffix("/"))
    return prefix


def check_folder(prefix: str) -> str:
    """Return the folder as it is: empty for the root, else with a slash at its end.

    Raises:
        BadArgumentError: the slash is missing, so that it might mean half a name.
    """
    if prefix and not prefix.endswith("/"):
        raise BadArgumentError(f"The folder {prefix!r} does not end in a slash.", key=prefix)
    return check_prefix(prefix)


def check_range(key: str, start: int, length: int) -> None:
    """Refuse a range that lies before the object.

    Raises:
        BadArgumentError: start or length is negative.
    """
    if start < 0 or length < 0:
        raise BadArgumentError(
            f"A range of {key!r} cannot start at {start} with {length} bytes.", key=key
        )


def bytewise(key: str) -> bytes:
    """Return what keys are sorted by: their UTF-8 bytes."""
    return key.encode()


def _encodable(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise UnsafePathError(f"The key {key!r} is not valid Unicode text.", key=key) from error
    return key


@dataclass(frozen=True, slots=True)
class RelativeKey:
    """An object of the table itself."""

    key: str


@dataclass(frozen=True, slots=True)
class AbsoluteObject:
    """An object elsewhere, below a root that the caller allowed (shallow clone)."""

    root: str
    key: str


def resolve_path(path: str, *, allowed_roots: Sequence[str] = ()) -> RelativeKey | AbsoluteObject:
    """Return where the object of a log's path lies.

    Raises:
        UnsafePathError: the path leads outside the table, or to no place below `allowed_roots`.
    """
    if not _ABSOLUTE.match(path):
        return RelativeKey(check_key(_decode(path)))
    if path.startswith("//"):
        raise _outside(path)
    return _below(path, allowed_roots)


def encode_path(key: str) -> str:
    """Return a key as a log writes it; `resolve_path` gives the same key back."""
    encoded = quote_path(check_key(key))
    match = _ABSOLUTE.match(encoded)
    # `a:b/c` would read as a URI of scheme a
    return encoded.replace(":", "%3A", 1) if match else encoded


def hive_escape(value: str | None) -> str:
    """Return a partition value as a directory name spells it; null and "" are one there."""
    if not value:
        return _HIVE_NULL
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED else c for c in value)


def _below(path: str, allowed_roots: Sequence[str]) -> AbsoluteObject:
    if any(segment in {".", ".."} for segment in _decode(path).split("/")):
        raise _outside(path)
    # a path that starts with a slash is a URI reference too: its percent sequences count
    uri = f"file://{path}" if path.startswith("/") else path
    try:
        target = parse_location(uri)
    except BadUriError as error:
        raise _outside(path) from error
    for root in allowed_roots:
        above = parse_location(root)
        if above.holds(target):
            key = target.path.removeprefix(above.path).lstrip("/")
            return AbsoluteObject(root, check_key(key))
    raise _outside(path)


def _decode(path: str) -> str:
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise UnsafePathError(f"The path {path!r} is not UTF-8.", path=path) from error


def _outside(path: str) -> UnsafePathError:
    return UnsafePathError(f"The path {path!r} leads outside the table.", path=path)
