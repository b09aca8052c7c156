"""SqlCatalog: the registry of tables, and the door to commits, snapshots and history."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from deltasql.crash import crash_point
from deltasql.database import migrations
from deltasql.database.port import Database, UniqueViolationError
from deltasql.errors import (
    BadArgumentError,
    CatalogCorruptError,
    CatalogError,
    CatalogUnavailableError,
    DeltaSqlError,
    PermissionDeniedError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
    VersionNotFoundError,
    missing_table_error,
)
from deltasql.metastore.commit.committer import Committer
from deltasql.metastore.commit.encode import StoredCommit, read_commits, read_payload
from deltasql.metastore.commit.recommit import Recommitter
from deltasql.metastore.commit.request import (
    CommitRequest,
    Committed,
    TransactionRequest,
    WriteSummary,
    require_same_write,
    stored_summary,
)
from deltasql.metastore.dropping import Dropping
from deltasql.metastore.id_blocks import IdBlocks
from deltasql.metastore.snapshot.commit_feed import HistoryEntry, history_entry
from deltasql.metastore.snapshot.snapshot import Snapshot, open_snapshot, require_in_catalog
from deltasql.metastore.table_row import (
    CatalogRow,
    NewTable,
    TableRow,
    TableState,
    split_name,
    table_row,
)
from deltasql.storage.location import parse_location

_LONGEST_NAME = 255
_NEWEST = 2**63 - 1
# Said of a name by whoever creates a table.
_MAKE_WAY = "Rename or drop that table first."
NAME_TAKEN = "Choose another name, or take the table that is there: `exist_ok=True`."


# Names that a misspelt one is compared with: a catalog may have very many.
_MAX_NAMES = 2_000
_TYPOS = 3


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that came or went between two versions."""

    change: str
    path: str
    dv_id: str
    version: int
    size: int | None
    num_records: int | None
    partition_values: dict[str, str | None]


class SqlCatalog:
    """One catalog in one database. Opens nothing but SQL."""

    def __init__(self, database: Database, identity: CatalogRow | None = None) -> None:
        self.database = database
        self.identity = identity or _identity(database)
        self.committer = Committer(database, self.identity.epoch)

    def table(self, name: str) -> TableRow:
        """Return a table by its name.

        Raises:
            TableNotFoundError: there is none.
        """
        row = self.find_table(name)
        if row is None:
            raise self._missing(name)
        return row

    def find_table(self, name: str) -> TableRow | None:
        """Return a table by its name, or None."""
        namespace, short = split_name(name)
        rows = self.database.fetch_all("table_by_name", namespace=namespace, name=short)
        return table_row(rows[0]) if rows else None

    def _missing(self, name: str) -> TableNotFoundError:
        """Return the error of a name that no table has, with the nearest one that a table has."""
        near: list[str] = []
        with suppress(DeltaSqlError):  # what is wrong is told without a suggestion too
            for namespace, short in self.database.fetch_all(
                "names_of_length",
                shortest=len(split_name(name)[1]) - _TYPOS,
                longest=len(split_name(name)[1]) + _TYPOS,
                most=_MAX_NAMES,
            ):
                near.append(f"{namespace}.{short}" if namespace else short)
        return missing_table_error(name, near)

    def table_by_id(self, table_id: str) -> TableRow:
        """Return a table, also a dropped one, by its id."""
        rows = self.database.fetch_all("table_by_id", table_id=table_id)
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {table_id}.")
        return table_row(rows[0])

    def table_at(self, location_key: str) -> TableRow | None:
        """Return the table that has a place, or None."""
        rows = self.database.fetch_all("table_by_location", location_key=location_key)
        return table_row(rows[0]) if rows else None

    def tables_around(self, row: TableRow) -> list[TableRow]:
        """Return the tables that a new one may be in the way of: by its name, or by its place.

        Those are the tables at its place, around it and below it; no others are read.
        """
        if parse_location(row.location_key).is_azure:  # no range of keys holds all spellings
            return [one for one in self.tables() if _is_in_the_way(one, row)]
        rows = self.database.fetch_all(
            "tables_around",
            namespace=row.namespace,
            name=row.name,
            keys=_folders(row.location_key),
            below_key=f"{row.location_key}/",
            end_key=f"{row.location_key}0",  # "0" comes after "/"
            places=_folders(row.location),
            below=f"{row.location}/",
            end=f"{row.location}0",
        )
        return [table_row(one) for one in rows]

    def tables(self) -> list[TableRow]:
        """Return all tables, by name."""
        return [table_row(row) for row in self.database.fetch_all("all_tables")]

    def dropped_tables(self) -> list[TableRow]:
        """Return all tables that were dropped, the last one first."""
        rows = [table_row(row) for row in self.database.fetch_all("dropped_tables")]
        return sorted(rows, key=lambda row: (row.dropped_at or 0, row.created_at), reverse=True)

    def is_dropped(self, table_id: str) -> bool:
        """Tell whether a table of this catalog was dropped and its files were kept."""
        rows = self.database.fetch_all("table_by_id", table_id=table_id)
        if not rows:
            return False
        row = table_row(rows[0])
        return row.state is TableState.DELETED and not row.is_purged

    def undrop(self, row: TableRow) -> TableRow:
        """Bring a dropped table back; see `Dropping.undrop`.

        Raises:
            TableExistsError: the name or the location is taken.
        """
        try:
            self.dropping().undrop(row)
        except UniqueViolationError as error:
            new = NewTable(row.table_id, row.namespace, row.name, row.location, row.location_key)
            raise self._taken(new, _MAKE_WAY) from error
        return self.table_by_id(row.table_id)

    def create(self, new: NewTable, request: CommitRequest) -> Committed:
        """Register a table and commit its first version, both or neither.

        Raises:
            TableExistsError: the name or the location is taken.
        """
        check_name(new.namespace, new.name)
        try:
            return self.committer.commit(TransactionRequest([request], create=new))[0]
        except UniqueViolationError as error:
            raise self._taken(new) from error

    def rename(self, old: str, new: str) -> None:
        """Give a table another name; its versions, files and log stay as they are."""
        namespace, name = split_name(new)
        check_name(namespace, name)
        row = self.table(old)
        try:
            with self.database.write() as tx:
                tx.execute("rename_table", table_id=row.table_id, namespace=namespace, name=name)
                crash_point("after-rename")
        except UniqueViolationError as error:
            raise TableExistsError(
                f"There is a table {new!r} already.", hint="Choose another name.", table=new
            ) from error

    def set_state(
        self, table_id: str, state: TableState, *, expected: Sequence[TableState]
    ) -> None:
        """Move a table from one of the expected states to another.

        Raises:
            TableStateError: the table is in none of them.
        """
        with self.database.write() as tx:
            row = table_row(tx.fetch_all("lock_table", table_id=table_id)[0])
            if row.state not in expected:
                raise TableStateError(
                    f"Table {row.full_name} is {row.state}, not {' or '.join(expected)}.",
                    table=row.full_name,
                )
            tx.execute("set_state", table_id=table_id, state=str(state))
            crash_point("after-set-state")

    def dropping(self) -> Dropping:
        """Return what takes tables out of the catalog."""
        return Dropping(self.database, self.identity.epoch)

    def snapshot(
        self,
        table_id: str,
        *,
        version: int | None = None,
        timestamp: int | None = None,
        where: str | None = None,
    ) -> Snapshot:
        """Return one version of a table; see `open_snapshot`."""
        row = self.table_by_id(table_id)
        require_in_catalog(row)
        if version is None and timestamp is None:
            snapshot = self._newest(row, where)
        else:
            with self.database.read() as tx:
                snapshot = open_snapshot(
                    self.database, tx, row, version=version, timestamp=timestamp, where=where
                )
        snapshot.predicate()
        return snapshot

    def known_snapshot(self, row: TableRow) -> Snapshot | None:
        """Return the snapshot of a row read before, without asking SQL, where that can be done."""
        if self.committer.cache.find(row) is None:
            return None
        return self._newest(row, None)

    def _newest(self, row: TableRow, where: str | None) -> Snapshot:
        """Return the snapshot of a row's current version; mostly without asking SQL again."""
        cache = self.committer.cache
        definition = cache.find(row)
        if definition is None:
            with self.database.read() as tx:
                definition = cache.load(tx, row)
        return Snapshot(self.database, row, row.current_version, row.last_ict, definition, where)

    def history(self, table_id: str, limit: int | None = None) -> list[HistoryEntry]:
        """Return the versions of a table, newest first."""
        rows = self.database.fetch_all(
            "history", table_id=table_id, upto=_NEWEST, most=limit or _NEWEST
        )
        return [history_entry(row) for row in rows]

    def changes(self, table_id: str, after: int, upto: int) -> list[FileChange]:
        """Return the files that came and went after one version and up to another.

        Raises:
            VersionNotFoundError: some of these versions are forgotten.
        """
        row = self.table_by_id(table_id)
        if after < row.oldest_version - 1:
            raise VersionNotFoundError(
                f"Table {row.full_name} has forgotten what came before version "
                f"{row.oldest_version}.",
                table=row.full_name,
                version=after,
            )
        rows = self.database.fetch_all("changes", table_id=table_id, after=after, upto=upto)
        return [_file_change(row) for row in rows]

    def digests(self, table_id: str, first: int, last: int) -> dict[int, str]:
        """Return the digests of versions by their numbers."""
        rows = self.database.fetch_all("digests", table_id=table_id, first=first, last=last)
        return dict(rows)

    def recommitter(self) -> Recommitter:
        """Return what commits foreign commits of a log again, as new versions."""
        committer = self.committer
        ids = IdBlocks(self.database, "file_id")
        return Recommitter(self.database, self.identity.epoch, committer.cache, ids)

    def current_epoch(self) -> int:
        """Return the epoch that the catalog has now, which may be newer than this process."""
        return int(self.database.fetch_all("catalog_row")[0][1])

    def new_epoch(self) -> int:
        """Begin a new epoch: whoever has the catalog open, here or in a clone, is fenced off."""
        with self.database.write() as tx:
            tx.execute("lock_all_tables")
            epoch = int(tx.fetch_all("new_epoch")[0][0])
            tx.execute("new_epoch_of_tables")
            crash_point("before-new-epoch")
        return epoch

    def set_paused(self, table_id: str, *, paused: bool) -> None:
        """Pause the mirror of a table, or resume it."""
        with self.database.write() as tx:
            tx.execute("set_mirror_paused", table_id=table_id, paused=paused)

    def stored_commits(
        self, table_id: str, first: int, last: int, *, most_bytes: int
    ) -> list[StoredCommit]:
        """Return the exact bytes of versions in order, as many as fit; see `read_commits`."""
        with self.database.read() as tx:
            return read_commits(tx, table_id, first, last, most_bytes)

    def payload(self, table_id: str, version: int) -> bytes:
        """Return the exact bytes of a version's commit."""
        with self.database.read() as tx:
            return read_payload(tx, table_id, version)

    def version_of(self, table_id: str, commit_id: str) -> int | None:
        """Return the version that a commit's token has, or None if it was never committed."""
        rows = self.database.fetch_all(
            "version_by_commit_id", table_id=table_id, commit_id=commit_id
        )
        return int(rows[0][0]) if rows else None

    def version_of_write(
        self, table_id: str, commit_id: str, meant: WriteSummary | None
    ) -> int | None:
        """Return the version that a write's token has, or None if it was never committed.

        Raises:
            InvalidCommitError: the token was used before for another write.
        """
        rows = self.database.fetch_all(
            "version_by_commit_id", table_id=table_id, commit_id=commit_id
        )
        if not rows:
            return None
        version = int(rows[0][0])
        if meant is not None:
            name = self.table_by_id(table_id).full_name
            require_same_write(name, version, stored_summary(rows[0][3:]), meant)
        return version

    def txn_version(self, table_id: str, app_id: str) -> int | None:
        """Return how far an application has written, or None if it never has."""
        rows = self.database.fetch_all("current_txn", table_id=table_id, app_id=app_id)
        return int(rows[0][0]) if rows else None

    def version_of_txn(self, table_id: str, app_id: str, number: int) -> int | None:
        """Return the version in which an application wrote a number, or None if it is unknown."""
        rows = self.database.fetch_all(
            "version_of_txn", table_id=table_id, app_id=app_id, txn_version=number
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def _taken(self, new: NewTable, hint: str = NAME_TAKEN) -> TableExistsError:
        with self.database.read() as tx:
            name = tx.fetch_all("table_by_name", namespace=new.namespace, name=new.name)
        full = f"{new.namespace}.{new.name}" if new.namespace else new.name
        if name:
            return TableExistsError(f"There is a table {full!r} already.", hint=hint, table=full)
        return TableExistsError(
            f"The location {new.location} belongs to another table.",
            hint="Choose another location, or use the table that is there.",
        )


def _is_in_the_way(one: TableRow, new: TableRow) -> bool:
    here, there = parse_location(one.location_key), parse_location(new.location_key)
    return one.full_name == new.full_name or here.holds(there) or there.holds(here)


def _folders(place: str) -> list[str]:
    """Return a place and the folders around it, up to its bucket or root."""
    found = [place]
    while "/" in found[-1].partition("://")[2]:
        found.append(found[-1].rpartition("/")[0])
    return found


def check_name(namespace: str, name: str) -> None:
    """Refuse names that could not be told apart or written down.

    Raises:
        BadArgumentError: says what is wrong.
    """
    for part, what in ((name, "name"), (namespace, "namespace")):
        if not part and what == "name":
            raise BadArgumentError("A table's name cannot be empty.")
        if len(part) > _LONGEST_NAME or not part.isprintable():
            raise BadArgumentError(
                f"A table's {what} has at most {_LONGEST_NAME} printable characters."
            )
    if "." in name:
        raise BadArgumentError("A table's name cannot begin with a dot.")
    if name != name.strip() or namespace != namespace.strip():
        raise BadArgumentError("A table's name cannot begin or end with a space.")


def find_identity(database: Database) -> CatalogRow | None:
    """Return the catalog's identity by one query, or None where its schema is not the newest."""
    try:
        rows = database.fetch_all("open_catalog")
    except (CatalogUnavailableError, PermissionDeniedError):
        raise
    except CatalogError:
        return None
    steps = migrations.known_migrations(database.dialect.name)
    if len(rows) != 1 or rows[0][3] != steps[-1].version:
        return None
    return _row(rows[0])


def _identity(database: Database) -> CatalogRow:
    with database.read() as tx:
        rows = tx.fetch_all("catalog_row")
    if len(rows) != 1:
        raise CatalogCorruptError("The catalog has no identity of its own.")
    return _row(rows[0])


def _row(values: tuple[Any, ...]) -> CatalogRow:
    return CatalogRow(str(values[0]), values[1], values[2])


def _file_change(row: tuple[Any, ...]) -> FileChange:
    change, path, dv_id, version, size, records, values = row
    plain = msgspec.json.decode(values or "{}")
    return FileChange(change, path, dv_id, version, size, records, plain)
