"""A snapshot is one version of one table: its rules, its files, its applications and domains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from deltasql.database.port import Database, DbTransaction
from deltasql.errors import (
    BadArgumentError,
    TableNotFoundError,
    TableStateError,
    VersionNotFoundError,
)
from deltasql.metastore.commit.check import refuse_vacuumed
from deltasql.metastore.snapshot.definition import TableDefinition, load_definition
from deltasql.metastore.table_row import TableRow, TableState, table_row
from deltasql.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltasql.protocol.features import writer_features
from deltasql.protocol.predicate import Predicate, parse_predicate
from deltasql.protocol.schema.columns import mapping_mode, physical_partition_columns
from deltasql.protocol.schema.types import StructType, parse_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FilesSummary:
    """Totals over the files of a snapshot; rows only where every file tells its own."""

    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table, read from SQL; it stays that version whatever is committed."""

    database: Database
    table: TableRow
    version: int
    timestamp: int
    definition: TableDefinition
    where: str | None = None

    @property
    def metadata(self) -> Metadata:
        """The table's metadata at this version."""
        return self.definition.metadata

    @property
    def protocol(self) -> Protocol:
        """The table's protocol at this version."""
        return self.definition.protocol

    @property
    def schema(self) -> StructType:
        """The table's columns at this version."""
        return parse_schema(self.metadata.schema_string)

    def predicate(
        self, where: str | Predicate | None = None, zone: tzinfo = UTC
    ) -> Predicate | None:
        """Return a filter over this version's columns, or the snapshot's own.

        Times in it that name no zone, and partition values of that kind, are those of `zone`.
        """
        text = where if where is not None else self.where
        if not isinstance(text, str):
            return text
        return parse_predicate(text, self.schema, mapping_mode(self.metadata.configuration), zone)

    def files(
        self, columns: Sequence[str] | None = None, *, where: str | Predicate | None = None
    ) -> pa.Table:
        """Return the files as Arrow; with a filter, those that may hold matching rows.

        Raises:
            BadPredicateError: the filter cannot be understood.
            VersionNotFoundError: the version was forgotten meanwhile.
        """
        from deltasql.metastore.snapshot.file_list import list_files  # noqa: PLC0415 (pyarrow)

        found = list_files(self.database, self._query(columns, self.predicate(where)))
        self._require_kept()
        return found

    def require_files(self) -> None:
        """Refuse a version whose files are gone, before they are looked for.

        Raises:
            VacuumedError: vacuum has deleted some of them.
        """
        if self.version < self.table.current_version:
            self.refuse_vacuumed()

    def refuse_vacuumed(self) -> None:
        """Look now whether vacuum has deleted files of this version.

        Raises:
            VacuumedError: it has.
        """
        with self.database.read() as tx:
            refuse_vacuumed(tx, self.table, self.version)

    def stream_files(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all files in batches, in bounded memory."""
        from deltasql.metastore.snapshot.file_list import stream_files  # noqa: PLC0415 (pyarrow)

        yield from stream_files(self.database, self._query(columns, None))
        self._require_kept()

    def files_named(self, keys: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Return the files that have one of these path keys."""
        from deltasql.metastore.snapshot.file_list import list_named  # noqa: PLC0415 (pyarrow)

        found = list_named(self.database, self._query(columns, None), keys)
        self._require_kept()
        return found

    def summary(self) -> FilesSummary:
        """Return how many files, bytes and rows the snapshot has."""
        with self.database.read() as tx:
            rows = tx.fetch_all("files_summary", table_id=self.table.table_id, version=self.version)
        self._require_kept()
        files, size, records, counted = rows[0]
        return FilesSummary(files, int(size), int(records or 0) if counted == files else None)

    def txns(self) -> list[Txn]:
        """Return how far each application has written."""
        with self.database.read() as tx:
            rows = tx.fetch_all("txns_at", table_id=self.table.table_id, version=self.version)
        return [Txn(app_id=app, version=v, last_updated=at) for app, v, at in rows]

    def domains(self) -> list[DomainMetadata]:
        """Return the metadata domains that are set."""
        with self.database.read() as tx:
            rows = tx.fetch_all("domains_at", table_id=self.table.table_id, version=self.version)
        return [
            DomainMetadata(domain=domain, configuration=text, removed=False)
            for domain, text, removed in rows
            if not removed
        ]

    def _require_kept(self) -> None:
        """Refuse a list of files of which some may have been deleted while it was made.

        Whoever forgets raises the floor first: a list that was whole is told by the floor after it.
        """
        with self.database.read() as tx:
            rows = tx.fetch_all("table_by_id", table_id=self.table.table_id)
        if not rows:
            raise gone_error(self.table)
        row = table_row(rows[0])
        require_in_catalog(row)
        if row.oldest_version > self.version:
            raise VersionNotFoundError(
                f"Table {self.table.full_name} has forgotten version {self.version} while its "
                "files were listed.",
                table=self.table.full_name,
                version=self.version,
            )

    def _query(self, columns: Sequence[str] | None, predicate: Predicate | None) -> FileQuery:
        from deltasql.metastore.snapshot.file_list import DEFAULT_COLUMNS, FileQuery  # noqa: PLC0415

        return FileQuery(
            self.table.table_id,
            self.version,
            self.table.first_version,
            tuple(columns) if columns is not None else DEFAULT_COLUMNS,
            predicate,
            frozenset(physical_partition_columns(self.metadata)),
            has_vectors="deletionVectors" in writer_features(self.protocol),
        )


if TYPE_CHECKING:
    from deltasql.metastore.snapshot.file_list import FileQuery


def require_in_catalog(row: TableRow) -> None:
    """Refuse a table that was dropped: its files may be gone from SQL and from the store.

    Raises:
        TableStateError: it was dropped, or replaced by a new import.
    """
    if row.state is TableState.DELETED:
        raise TableStateError(
            f"Table {row.full_name} ({row.table_id}) was dropped, or replaced by a new import.",
            hint=f"If there is a table {row.full_name} now, open it by its name; "
            f"`deltasql undrop {row.full_name}` brings back a table that was dropped.",
            table=row.full_name,
        )


def gone_error(row: TableRow) -> TableNotFoundError:
    """Return the error of a table whose rows were erased since it was opened."""
    return TableNotFoundError(
        f"Table {row.full_name} ({row.table_id}) is no longer in the catalog.",
        hint=f"If there is a table {row.full_name} now, open it by its name.",
        table=row.full_name,
    )


def open_snapshot(
    database: Database,
    tx: DbTransaction,
    row: TableRow,
    *,
    version: int | None = None,
    timestamp: int | None = None,
    where: str | None = None,
) -> Snapshot:
    """Return the snapshot of a version, of a time, or the newest.

    Raises:
        VersionNotFoundError: the table has no such version, or had none at that time.
        BadArgumentError: both a version and a time were asked for.
    """
    if version is not None and timestamp is not None:
        raise BadArgumentError("A snapshot is of a version or of a time, not of both.")
    if timestamp is not None:
        version = version_at(tx, row, timestamp)
    if version is None:
        version = row.current_version
    if not row.oldest_version <= version <= row.current_version:
        raise VersionNotFoundError(
            f"Table {row.full_name} has no version {version}; "
            f"it has {row.oldest_version} to {row.current_version}.",
            table=row.full_name,
            version=version,
        )
    times = tx.fetch_all("version_time", table_id=row.table_id, version=version)
    definition = load_definition(tx, row.table_id, version)
    return Snapshot(database, row, version, times[0][0], definition, where)


def version_at(tx: DbTransaction, row: TableRow, timestamp: int) -> int:
    """Return the newest version committed at or before a time, in milliseconds.

    Raises:
        VersionNotFoundError: the table is younger than that.
    """
    rows = tx.fetch_all(
        "version_at",
        table_id=row.table_id,
        first=row.oldest_version,
        last=row.current_version,
        timestamp=timestamp,
    )
    if rows[0][0] is None:
        raise VersionNotFoundError(
            f"Table {row.full_name} has no version at {timestamp} ms; it is younger.",
            table=row.full_name,
            timestamp=timestamp,
        )
    return int(rows[0][0])
