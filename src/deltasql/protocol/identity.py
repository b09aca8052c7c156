"""Identity of a file: its path in one spelling, and its deletion vector."""

from __future__ import annotations

import re
from typing import TypeAlias

from deltasql.protocol.actions import Add, Remove

FileKey: TypeAlias = tuple[str, str]

_FILE_URI = re.compile(r"file:/{1,3}(?=[^/])|^/(?=[^/])")


def path_key(path: str) -> str:
    """Return the path verbatim, except that an absolute local path gets one spelling.

    `/x`, `file:/x` and `file:///x` are one place; relative paths and URIs of other schemes are
    compared byte by byte, as every reader does.
    """
    return _FILE_URI.sub("file:///", path, count=1) if path.startswith(("/", "file:/")) else path


def file_key(action: Add | Remove) -> FileKey:
    """Return (path key, deletion vector id) of an add or remove."""
    return path_key(action.path), action.dv_id
