"""Identity of a file: its path in one spelling, and its deletion vector."""

from __future__ import annotations

import re
from typing import TypeAlias

from deltasql.protocol.actions import Add, Remove

FileKey: TypeAlias = tuple[str, str]

# `file://x/y` names a host, `//x` another authority: neither is the path /x
_LOCAL = re.compile(r"(?:file:(?://)?)?/(?!/)")


def path_key(path: str) -> str:
    """Return the path verbatim, except that an absolute local path gets one spelling.

    `/x`, `file:/x` and `file:///x` are one place; relative paths and URIs of other schemes are
    compared byte by byte, as every reader does.
    """
    found = _LOCAL.match(path)
    return path if found is None else "file:///" + path[found.end() :]


def file_key(action: Add | Remove) -> FileKey:
    """Return (path key, deletion vector id) of an add or remove."""
    return path_key(action.path), action.dv_id
