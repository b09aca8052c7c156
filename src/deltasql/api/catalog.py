"""Catalog: the tables of one database; the door to everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltasql.api.mirror import Mirror
from deltasql.api.session import LazySession, Session
from deltasql.api.table import Table
from deltasql.api.transaction import Transaction
from deltasql.api.write.create import TableSpec, create_empty, plan_table
from deltasql.api.write.table_write import CommitOptions
from deltasql.api.write.two_step import TwoStepWrite
from deltasql.crash import crash_point
from deltasql.errors import BadArgumentError, TableExistsError, TableStateError
from deltasql.maintenance.drop import (
    DroppedTable,
    dropped_tables,
    purge_table,
    take_back,
    undrop_table,
)
from deltasql.metastore.log_state import COPIES
from deltasql.metastore.retention import ForgetPlan, Forgetting
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.properties import read_interval
from deltasql.runtime.connection import Connection
from deltasql.storage.resolve import StoreOpener, canonical_location, location_key

if TYPE_CHECKING:
    from deltasql.api.imports import CatalogImports
    from deltasql.imports.cutover import CutOver
    from deltasql.imports.engines.local import EngineKind
    from deltasql.imports.job import Imported
    from deltasql.imports.load.loader import Observer


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One line in the list of tables."""

    name: str
    table_id: str
    location: str
    version: int
    state: TableState
    created_at: int
    mirrored_through: int


class Catalog:
    """An open catalog; close it, or use it in a `with` block."""

    def __init__(self, lazy: LazySession) -> None:
        self._lazy = lazy
        self.mirror = Mirror(lazy)

    @property
    def _session(self) -> Session:
        return self._lazy.session

    @property
    def _connection(self) -> Connection:
        return self._session.connection

    def create_if_missing(self) -> None:
        """Make the catalog if it is not there, as `deltasql db init` does; safe to repeat.

        Raises:
            SchemaMissingError: it is not there, and the setting sql.schema is "error".
        """
        self._lazy.create()

    @property
    def catalog_id(self) -> str:
        """The catalog's id, the same for its whole life."""
        return self._connection.metastore.identity.catalog_id

    def new_epoch(self) -> int:
        """Begin a new epoch before a recovery: every other process must open the catalog again."""
        return self._connection.metastore.new_epoch()

    def tables(self) -> list[TableInfo]:
        """Return all tables that can be read, by name."""
        rows = self._connection.metastore.tables()
        return [_info(row) for row in rows if row.state is not TableState.IMPORTING]

    def unfinished_imports(self) -> list[TableInfo]:
        """Return the tables whose import runs now, or has died and waits to be ended."""
        rows = self._connection.metastore.tables()
        return [_info(row) for row in rows if row.state is TableState.IMPORTING]

    def table(self, name: str, *, follow: bool = False) -> Table:
        """Return a table by its name, or by `namespace.name`.

        With `follow`, a read-only import is first brought to the head of its log.

        Raises:
            TableNotFoundError: there is none.
            TableStateError: its import has not ended.
        """
        found = Table(self._session, require_visible(self._connection.metastore.table(name)))
        if follow:
            found.follow()
        return found

    def create_table(
        self,
        name: str,
        *,
        location: str,
        schema: Any,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Create a table at an empty location; with `exist_ok`, return the one that is there.

        `schema` is an Arrow schema, anything that has one, or Delta's own JSON.

        Raises:
            TableExistsError: the name or the location is taken.
            UnsafeStoreError: the store ignores the conditions that protect commits.
        """
        place = canonical_location(location)
        self._lazy.create().connection.check_settings(properties or {})
        spec = TableSpec(name, place, schema, partition_by, dict(properties or {}), description)
        try:
            return self._create(spec)
        except TableExistsError:
            found = self._connection.metastore.table_at(location_key(place)) if exist_ok else None
            if found is None or found.full_name != name:
                raise
            return Table(self._session, found)

    def import_table(
        self,
        source: str,
        name: str | None = None,
        *,
        engine: EngineKind = "auto",
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        on_progress: Observer | None = None,
        **options: Any,
    ) -> Imported:
        """Bring an existing Delta table under SQL, with its history; it is read-only then.

        Options are those of ImportOptions: from_version, up_to_version, checkpoint_only, lenient,
        resume, force.
        Without a name the table is called after its folder.

        Raises:
            TableExistsError, NotResumableError: the target does not fit.
            LogGapError, MalformedActionError, UnsupportedFeatureError: the log cannot be imported;
                whole versions before the fault stay for `resume`.
        """
        from deltasql.api.imports import ImportCall  # noqa: PLC0415 (pyarrow)

        call = ImportCall(engine, master, conf or {}, on_progress)
        return call.run(self._lazy.create().connection, source, name, options)

    @property
    def writes(self) -> TwoStepWrite:
        """Where a write begins in one process and is committed in another."""
        return TwoStepWrite(self._lazy)

    @property
    def imports(self) -> CatalogImports:
        """Where imports are planned, run and compared step by step."""
        from deltasql.api.imports import CatalogImports  # noqa: PLC0415 (pyarrow)

        return CatalogImports(self._lazy)

    def cutover(self, name: str, *, fence: bool = True, follow: bool = False) -> CutOver:
        """Let SQL take over the log of an imported table: from then on it takes commits.

        With `follow`, what others have committed since the import is taken along.

        Raises:
            CutoverError: the import is behind the log, or others are always faster.
        """
        from deltasql.imports.cutover import cut_over  # noqa: PLC0415 (pyarrow)

        return cut_over(self._connection, name, fence=fence, follow=follow)

    def rename(self, old: str, new: str) -> None:
        """Give a table another name; nothing else changes."""
        self._connection.metastore.rename(old, new)

    def drop(self, name: str, *, purge: bool = False, force: bool = False) -> None:
        """Take a table out of the catalog; its files and its log stay, unless `purge`.

        `undrop_table` brings it back, as long as nobody changes its log or takes its place.
        An import that was never cut over is taken back: its rows go, its source stays as it is.

        Raises:
            MirrorLagError: commits have not reached the log, which will be all that is left;
                `force` drops them from SQL all the same.
            OwnershipError: the catalog was recovered since; or a purge would delete the files of
                a log that is another catalog's, or ahead of SQL.
        """
        row = self._connection.metastore.table(name)
        if row.state in COPIES:
            take_back(self._connection, row, purge=purge)
            return
        if purge and row.state is TableState.DETACHED:
            raise TableStateError(
                f"Table {row.full_name} was detached: its files belong to a log that others write.",
                hint="Drop it without `purge=True`: the log stays as it is.",
                table=row.full_name,
            )
        if purge:
            purge_table(self._connection, row)
            return
        if not force and row.mirrored_through < row.current_version:
            self._session.mirroring.engine.catch_up(row.table_id, seconds=10.0)
        crash_point("before-drop")
        self._connection.metastore.dropping().drop(row, may_lag=force)

    def dropped_tables(self) -> list[DroppedTable]:
        """Return the tables that were dropped, the last one first."""
        return dropped_tables(self._connection)

    def undrop_table(
        self, name: str, *, table_id: str | None = None, dry_run: bool = False
    ) -> Table:
        """Bring a dropped table back, in the state that it had, with all its versions.

        Of several tables of this name the one that was dropped last comes back, or the one with
        `table_id`. With `dry_run` only the checks are made.

        Raises:
            TableNotFoundError: no table of this name was dropped.
            TableStateError: it was purged, or replaced by a new import.
            TableExistsError: its name or its location is taken.
            OwnershipError, MirrorConflictError: its log is not the one that it was dropped with.
        """
        row = undrop_table(
            self._connection,
            name,
            table_id,
            lambda: self._session.mirroring.engine,
            dry_run=dry_run,
        )
        return Table(self._session, row)

    def forget_history(
        self, name: str, older_than: timedelta, *, dry_run: bool = True
    ) -> ForgetPlan:
        """Forget versions that are older and no longer in the log; tells only, unless told.

        What is forgotten can be neither read nor restored, and its commit tokens are unknown
        again. The table's state and everything from the floor on stay as they are.

        Raises:
            BadArgumentError: `older_than` is negative.
        """
        if older_than < timedelta():
            raise BadArgumentError(f"History of {name} cannot be kept for {older_than}.")
        connection, row = self._connection, self._connection.metastore.table(name)
        snapshot = connection.metastore.snapshot(row.table_id)
        forgetting = Forgetting(connection.metastore.database)
        plan = forgetting.plan(
            row,
            cutoff=connection.now_ms() - int(older_than.total_seconds() * 1000),
            tombstones=read_interval(
                snapshot.metadata.configuration, "delta.deletedFileRetentionDuration"
            ),
        )
        if not dry_run:
            forgetting.run(row, plan)
        return plan

    def transaction(
        self,
        operation: str | None = None,
        *,
        user_metadata: str | None = None,
        commit_id: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Transaction:
        """Return a transaction over any tables: `with catalog.transaction() as tx: …`.

        `txn=(app, version)` makes a repetition a no-op, for all of its tables at once.
        """
        options = CommitOptions(
            commit_id=commit_id, user_metadata=user_metadata, operation=operation, txn=txn
        )
        return Transaction(self._session, options)

    def store_opener(self, location: str) -> StoreOpener:
        """Return how another process opens the store at a location."""
        return self._connection.stores.opener(location)

    def close(self) -> None:
        """Let go of everything; commits are safe, mirroring under way is finished."""
        self._lazy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _create(self, spec: TableSpec) -> Table:
        planned = plan_table(self._session, spec)
        create_empty(self._session, planned)
        return Table(self._session, self._connection.metastore.table_by_id(planned.row.table_id))


def require_visible(row: TableRow) -> TableRow:
    """Return the row of a table that can be read.

    Raises:
        TableStateError: its import has not ended.
    """
    if row.state is TableState.IMPORTING:
        raise TableStateError(
            f"Table {row.full_name} is being imported: it has come to version "
            f"{row.current_version}.",
            hint="If the import has died, end it with `resume=True`, or take it back with "
            f"`catalog.drop({row.full_name!r})`.",
            table=row.full_name,
        )
    return row


def _info(row: TableRow) -> TableInfo:
    return TableInfo(
        row.full_name,
        row.table_id,
        row.location,
        row.current_version,
        row.state,
        row.created_at,
        row.mirrored_through,
    )
