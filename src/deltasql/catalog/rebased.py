"""Commits that gave their number to a foreign one: what they were before, and how to tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltasql.catalog.database import Database, Work
from deltasql.catalog.payloads import unpack
from deltasql.errors import CatalogCorruptError, VersionNotFoundError

# Counts how often a table was renumbered: numbers that were read before mean other versions now.
RENUMBERED = "deltasql.renumbered"


@dataclass(frozen=True, slots=True)
class RebasedCommit:
    """A commit as it was under its old number; its bytes are kept."""

    renumbering: int
    old_version: int
    new_version: int
    commit_id: str
    committed_at: int
    committer: str | None
    operation: str
    transaction_id: str | None
    digest: str
    rebased_at: int


def renumberings(properties: Mapping[str, Any]) -> int:
    """Return how often a table was renumbered."""
    return int(properties.get(RENUMBERED, 0))


def with_renumbering(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a table that was renumbered once more."""
    return {**properties, RENUMBERED: str(renumberings(properties) + 1)}


def list_rebased(database: Database, table_id: str) -> list[RebasedCommit]:
    """Return every commit that had another number, oldest renumbering first."""
    return [RebasedCommit(*row) for row in database.rows("rebased_commits", table_id=table_id)]


def read_rebased(work: Work, table_id: str, commit: RebasedCommit) -> bytes:
    """Return the exact bytes that a commit had under its old number.

    Raises:
        VersionNotFoundError: the book keeps no such commit.
        CatalogCorruptError: the kept bytes do not have their digest.
    """
    place = {
        "table_id": table_id,
        "renumbering": commit.renumbering,
        "old_version": commit.old_version,
    }
    rows = work.rows("rebased_payload", **place)
    if not rows:
        raise VersionNotFoundError(
            f"Table {table_id} keeps no commit that was version {commit.old_version}.",
            version=commit.old_version,
        )
    stored, size, expected = rows[0]
    if stored is None:
        chunks = work.rows("rebased_payload_chunks", **place)
        stored = b"".join(bytes(chunk) for (chunk,) in chunks)
    payload = unpack(bytes(stored), size, expected)
    if payload is None:
        raise CatalogCorruptError(
            f"The kept bytes of table {table_id}, once version {commit.old_version}, do not have "
            "their digest.",
            table_id=table_id,
            version=commit.old_version,
        )
    return payload
