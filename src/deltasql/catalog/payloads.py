"""The exact bytes of every commit: stored compressed, in chunks when they are big, read checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import zstandard

from deltasql.catalog.commit_encode import decompress
from deltasql.catalog.database import Work
from deltasql.errors import CatalogCorruptError, VersionNotFoundError
from deltasql.protocol.codec import digest

CHUNK_BYTES = 64 * 1024 * 1024


def insert_chunks(work: Work, table_id: str, version: int | None, packed: bytes) -> bytes | None:
    """Store a big payload in chunks and return None; return a small one for its version's row."""
    if len(packed) <= CHUNK_BYTES:
        return packed
    for number, start in enumerate(range(0, len(packed), CHUNK_BYTES)):
        chunk = packed[start : start + CHUNK_BYTES]
        work.run(
            "insert_payload_chunk", table_id=table_id, version=version, chunk=number, payload=chunk
        )
    return None


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """A version's exact bytes, and when it was committed."""

    version: int
    committed_at: int
    payload: bytes


def read_commits(
    work: Work, table_id: str, first: int, last: int, most_bytes: int
) -> list[StoredCommit]:
    """Return versions from `first` on, up to `last` or to so many bytes, and at least one."""
    sizes = work.rows("payload_sizes", table_id=table_id, first=first, last=last)
    total, upto = 0, first
    for version, size in sizes:
        total += size
        if total > most_bytes and version > first:
            break
        upto = version
    rows = work.rows("payloads", table_id=table_id, first=first, last=upto)
    return [
        StoredCommit(version, at, _checked(work, table_id, version, (stored, size, expected)))
        for version, at, stored, size, expected in rows
    ]


def read_payload(work: Work, table_id: str, version: int) -> bytes:
    """Return the bytes of a version exactly as they were committed.

    Raises:
        VersionNotFoundError: the book has no such version.
        CatalogCorruptError: the stored bytes do not have their digest.
    """
    rows = work.rows("payload", table_id=table_id, version=version)
    if not rows:
        raise VersionNotFoundError(f"Table {table_id} has no version {version}.", version=version)
    stored, size, expected = rows[0]
    return _checked(work, table_id, version, (stored, size, expected))


def _checked(work: Work, table_id: str, version: int, row: tuple[Any, int, str]) -> bytes:
    stored, size, expected = row
    if stored is None:
        chunks = work.rows("payload_chunks", table_id=table_id, version=version)
        stored = b"".join(bytes(chunk) for (chunk,) in chunks)
    payload = unpack(bytes(stored), size, expected)
    if payload is None:
        raise _corrupt(table_id, version)
    return payload


def unpack(stored: bytes, size: int, expected: str) -> bytes | None:
    """Return stored bytes as they were committed, or None where they do not have their digest."""
    payload = stored
    # dl_append stores plain bytes: a commit begins with a brace, a compressed frame never does
    if not payload.startswith(b"{"):
        try:
            payload = decompress(payload, size)
        except zstandard.ZstdError:
            return None
    return payload if digest(payload) == expected else None


def _corrupt(table_id: str, version: int) -> CatalogCorruptError:
    return CatalogCorruptError(
        f"The stored bytes of table {table_id}, version {version}, do not have their digest.",
        table_id=table_id,
        version=version,
    )
