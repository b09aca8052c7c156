"""Commits in order, for the change feed, streams and the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import msgspec

from deltasql.database.port import Database, DbTransaction
from deltasql.errors import TableNotFoundError, VacuumedError, VersionNotFoundError
from deltasql.metastore.commit.encode import read_payload
from deltasql.metastore.table_row import TableRow, table_row
from deltasql.protocol.changes import FollowedCommit, followed
from deltasql.protocol.codec import iter_commit


@dataclass(frozen=True, slots=True)
class CommitRef:
    """Which commit a version is: its token stays with it, its number may not."""

    version: int
    timestamp: int
    commit_id: str


@dataclass(frozen=True, slots=True)
class CommitFeed:
    """One read of the catalog: where the table is, in which epoch, and its commits."""

    tx: DbTransaction
    row: TableRow
    epoch: int

    def commit_id(self, version: int) -> str | None:
        """Return the token of a version's commit, or None where the catalog does not have it."""
        rows = self.tx.fetch_all(
            "commit_ids", table_id=self.row.table_id, first=version, last=version
        )
        return str(rows[0][2]) if rows else None

    def commits(self, first: int, last: int) -> Iterator[CommitRef]:
        """Yield the commits of versions in order.

        Raises:
            VersionNotFoundError: the catalog does not have one of them.
        """
        known = self.tx.fetch_all("commit_ids", table_id=self.row.table_id, first=first, last=last)
        refs = [CommitRef(version, at, str(commit_id)) for version, at, commit_id in known]
        for version, ref in zip_longest(range(first, last + 1), refs):
            if ref is None or ref.version != version:
                raise VersionNotFoundError(
                    f"Table {self.row.full_name} has no version {version}.", version=version
                )
            yield ref

    def require_files(self, paths: Iterable[str], first: int, last: int) -> None:
        """Refuse files of the commits of some versions that are gone, before they are looked for.

        Raises:
            VacuumedError: vacuum has deleted one of them.
        """
        place = {"table_id": self.row.table_id, "first": first, "last": last}
        gone = dict(self.tx.fetch_all("vacuumed_between", **place))
        found = next((path for path in paths if path in gone), None) if gone else None
        if found is not None:
            raise VacuumedError(
                f"Versions {first} to {last} of {self.row.full_name} cannot be read any more: "
                f"vacuum deleted the file {found}.",
                table=self.row.full_name,
                vacuumed_at=gone[found],
            )

    def read(self, ref: CommitRef) -> FollowedCommit:
        """Return what a commit holds.

        Raises:
            CatalogCorruptError: the stored bytes do not have their digest.
        """
        payload = read_payload(self.tx, self.row.table_id, ref.version)
        actions = iter_commit(payload, version=ref.version, lenient=True)
        return followed(ref.version, ref.timestamp, ref.commit_id, actions)


def read_head(database: Database, table_id: str) -> tuple[object, ...] | None:
    """Return by one query what changes with every commit: for those who ask again and again."""
    rows = database.fetch_all("table_head", table_id=table_id)
    return tuple(rows[0]) if rows else None


@contextmanager
def open_feed(database: Database, table_id: str) -> Iterator[CommitFeed]:
    """Open a read of one state of the catalog.

    Raises:
        TableNotFoundError: there is no such table.
    """
    with database.read() as tx:
        rows = tx.fetch_all("table_by_id", table_id=table_id)
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {table_id}.")
        epoch = int(tx.fetch_all("catalog_row")[0][1])
        yield CommitFeed(tx, table_row(rows[0]), epoch)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version in the history of a table."""

    version: int
    committed_at: int
    committer: str | None
    operation: str
    operation_params: dict[str, str]
    operation_metrics: dict[str, str]
    user_metadata: str | None
    read_version: int | None
    is_blind_append: bool
    adds: int
    removes: int
    bytes_added: int
    bytes_removed: int
    commit_id: str
    transaction_id: str | None
    client: str | None
    origin: str
    digest: str


def history_entry(row: tuple[Any, ...]) -> HistoryEntry:
    """Return a row of the query `history` as a value."""
    values = list(row)
    values[4] = msgspec.json.decode(values[4])
    values[5] = msgspec.json.decode(values[5])
    values[8] = bool(values[8])
    return HistoryEntry(*values)
