"""Identity of a file: its path in one spelling, and its deletion vector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

from deltasql.protocol.actions import Add, Remove

FileKey: TypeAlias = tuple[str, str]

_HASH_BYTES = 16

# `file://x/y` names a host, `//x` another authority: neither is the path /x
_ABSOLUTE = ("/", "file:")
_LOCAL = re.compile(r"(?:file:(?://)?)?/(?!/)")


def path_key(path: str) -> str:
    """Return the path verbatim, except that an absolute local path gets one spelling.

    `/x`, `file:/x` and `file:///x` are one place; relative paths and URIs of other schemes are
    compared byte by byte, as every reader does.
    """
    found = _LOCAL.match(path)
    return path if found is None else "file:///" + path[found.end() :]


def hash_key(key: str, dv_id: str) -> bytes:
    """Return what SQL knows a file by: 16 bytes for a path key and a deletion vector's id.

    Cryptographic, because two files of one hash would be taken for one, and paths are anybody's.
    """
    return blake2b(f"{key}\0{dv_id}".encode(), digest_size=_HASH_BYTES).digest()


def file_hashes(path: str, dv_id: str) -> tuple[bytes, bytes | None]:
    """Return the hash of a file, and for a file with a vector that of its path alone."""
    key = path_key(path)
    return hash_key(key, dv_id), hash_key(key, "") if dv_id else None


def hash_files(files: Sequence[Add | Remove]) -> list[bytes]:
    """Return the hash of each file; see `file_hashes`."""
    return [
        blake2b(f"{file.path}\0".encode(), digest_size=_HASH_BYTES).digest()
        if file.deletion_vector is None and not file.path.startswith(_ABSOLUTE)
        else file_hashes(file.path, file.dv_id)[0]
        for file in files
    ]


def hash_paths(files: Sequence[Add | Remove]) -> list[bytes | None]:
    """Return the hash of the path of each file that has a vector."""
    return [
        None if file.deletion_vector is None else hash_key(path_key(file.path), "")
        for file in files
    ]


def file_key(action: Add | Remove) -> FileKey:
    """Return (path key, deletion vector id) of an add or remove."""
    return path_key(action.path), action.dv_id
