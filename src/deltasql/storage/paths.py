"""Paths of a log, made safe: an RFC 2396 reference in, a store key out. Pure.

Identity of a file is its path verbatim; what is decoded here serves only to find the object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from deltasql.errors import BadUriError, UnsafePathError
from deltasql.storage.keys import check_key
from deltasql.storage.location import parse_location, quote_path

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
# besides control characters, what Hive and Spark do not let into a directory name
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


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
