"""Table: read and write one table; every write is one commit and returns its version."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from deltasql.api.detail import check_filter, check_version, columns_or_none, table_detail, to_ms
from deltasql.api.scan import Scan
from deltasql.api.session import Session
from deltasql.api.write import operations
from deltasql.api.write.driver import (
    STALE,
    Commit,
    Pin,
    Staging,
    count_rows,
    once,
    replanned,
    write_table,
)
from deltasql.api.write.schema_changes import RowsInPlace, SchemaMode
from deltasql.api.write.table_write import CommitOptions, TableWrite, to_actions
from deltasql.errors import (
    BadArgumentError,
    MirrorLagError,
    TableNotFoundError,
)
from deltasql.events import SnapshotOpened
from deltasql.maintenance.drop import leave, let_go
from deltasql.metastore.commit.request import WriteSummary
from deltasql.metastore.registry import FileChange
from deltasql.metastore.snapshot.commit_feed import HistoryEntry
from deltasql.metastore.snapshot.snapshot import Snapshot, gone_error, require_in_catalog
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.actions import Action, Add
from deltasql.protocol.schema.types import StructField, StructType
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

if TYPE_CHECKING:
    from deltasql.maintenance.vacuum import VacuumReport


def wait_mirrored(session: Session, table_id: str, version: int, timeout: float) -> None:
    """Wait until the log holds a version, helping along where nobody else does.

    Raises:
        MirrorLagError: it did not get there in time; the commit is safe in SQL.
    """
    deadline = time.monotonic() + timeout
    while (row := session.connection.metastore.table_by_id(table_id)).mirrored_through < version:
        left = deadline - time.monotonic()
        if left <= 0:
            raise MirrorLagError(
                f"Table {row.full_name}: the log is at {row.mirrored_through}, not yet at "
                f"{version}.",
                table=row.full_name,
                version=version,
            )
        result = session.mirroring.engine.catch_up(table_id, seconds=left)
        if result.error is not None:
            time.sleep(min(0.1, max(left, 0.0)))


def complete_log(session: Session, table_id: str, version: int) -> None:
    """Wait for the log as somebody does who will leave nothing else behind.

    Raises:
        MirrorLagError: the log could not be completed.
    """
    deadline = session.connection.settings.mirror.inline_deadline.total_seconds() * 5
    wait_mirrored(session, table_id, version, max(deadline, 10.0))


class Table:
    """A table of the catalog, by its id: it stays the same table when it is renamed."""

    def __init__(self, session: Session, row: TableRow) -> None:
        self._session = session
        self._row = row

    @property
    def _connection(self) -> Connection:
        return self._session.connection

    def __repr__(self) -> str:
        return f"Table({self._row.full_name!r}, location={self._row.location!r})"

    @property
    def table_id(self) -> str:
        """The table's id, the same for its whole life."""
        return self._row.table_id

    @property
    def name(self) -> str:
        """The table's name now."""
        return self.refresh().full_name

    @property
    def location(self) -> str:
        """Where the table's files and log are."""
        return self._row.location

    @property
    def store(self) -> ObjectStore:
        """The store at the table's location."""
        return self._connection.store_of(self._row)

    @property
    def version(self) -> int:
        """The newest version."""
        return self.refresh().current_version

    @property
    def state(self) -> TableState:
        """What may be done with the table now."""
        return self.refresh().state

    @property
    def schema(self) -> StructType:
        """The columns of the newest version."""
        return self.snapshot().schema

    def refresh(self) -> TableRow:
        """Return the table's row as it is now."""
        try:
            self._row = self._connection.metastore.table_by_id(self._row.table_id)
        except TableNotFoundError as error:
            raise gone_error(self._row) from error
        return self._row

    def snapshot(
        self,
        version: int | None = None,
        timestamp: datetime | date | int | str | None = None,
        where: str | None = None,
    ) -> Snapshot:
        """Return one version of the table: the newest, a given one, or that of a time."""
        started = time.monotonic()
        check_version(version)
        check_filter(where)
        moment = None if timestamp is None else to_ms(timestamp)
        try:
            found = self._connection.metastore.snapshot(
                self.table_id, version=version, timestamp=moment, where=where
            )
        except TableNotFoundError as error:
            raise gone_error(self._row) from error
        self._connection.emit(
            SnapshotOpened(
                table_id=self.table_id,
                table=found.table.full_name,
                version=found.version,
                latency_ms=(time.monotonic() - started) * 1000,
            )
        )
        return found

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: int | None = None,
        timestamp: datetime | date | int | str | None = None,
        allowed_roots: Sequence[str] = (),
    ) -> Scan:
        """Return the rows to read; `allowed_roots` lets a shallow clone reach its source."""
        chosen = columns_or_none(columns)
        snapshot = self.snapshot(version, timestamp, where)
        # an absolute path below the table itself leads nowhere else
        roots = (self._row.location, *allowed_roots)
        return Scan(snapshot, self.store, chosen, where, roots, self._connection.store_at)

    def append(self, data: Any, *, schema_mode: SchemaMode = "strict", **options: Any) -> int:
        """Add rows and return the new version.

        Options are those of CommitOptions: commit_id makes a repeat harmless, txn=(app, version)
        makes it a no-op, expected_version and user_metadata as they say.
        """
        meant = WriteSummary("WRITE", "Append", count_rows(data))
        return self._write(
            lambda staged: staged.append(data, schema_mode=schema_mode), options, meant
        )

    def overwrite(
        self,
        data: Any,
        *,
        where: str | None = None,
        schema_mode: SchemaMode = "strict",
        **options: Any,
    ) -> int:
        """Replace all rows, or those of the partitions that `where` names."""
        return self._write(
            lambda staged: staged.overwrite(data, where=where, schema_mode=schema_mode),
            options,
            WriteSummary("WRITE", "Overwrite"),
        )

    def delete(self, where: str, **options: Any) -> int:
        """Remove all rows of the partitions that `where` names."""
        return self._replan(lambda staged: staged.delete(where), options, WriteSummary("DELETE"))

    def commit(
        self,
        actions: Iterable[Action | Mapping[str, Any]],
        *,
        expected_version: int | None = None,
        **options: Any,
    ) -> int:
        """Commit Delta actions as they are; with `expected_version`, only on that version."""
        given = to_actions(actions)
        chosen = {"expected_version": expected_version, **options}

        def work(staged: TableWrite) -> None:
            staged.commit(given, expected_version=expected_version)

        pins = once(self.snapshot)
        if expected_version is None and all(isinstance(action, Add) for action in given):
            pins = (*self._remembered(), *pins)
        return self._write(work, chosen, pins=pins)

    def compact(
        self, where: str | None = None, target_size: int | None = None, **options: Any
    ) -> int:
        """Rewrite small files into bigger ones; no row changes. Returns the version."""
        return self._write(
            lambda staged: staged.compact(where, target_size), options, WriteSummary("OPTIMIZE")
        )

    def alter(
        self,
        *,
        add: Sequence[StructField] = (),
        properties: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        description: str | None = None,
        **options: Any,
    ) -> int:
        """Add columns, set or unset properties, or describe the table.

        Raises:
            ConstraintViolationError: a row breaks a constraint that would be added.
        """
        self._connection.check_settings(properties or {})

        def work(staged: TableWrite) -> None:
            planned = operations.plan_alter(
                staged.snapshot,
                add=add,
                set_properties=properties,
                unset=unset,
                description=description,
            )
            rows = RowsInPlace(staged.snapshot, self.store, self._connection.store_at)
            staged.stage(rows.checked(planned))

        meant = WriteSummary(operations.alter_note(add, properties, unset).operation)
        return self._replan(work, options, meant)

    def restore(
        self,
        version: int | None = None,
        timestamp: datetime | date | int | str | None = None,
        **options: Any,
    ) -> int:
        """Bring an older version back as a new one; the versions between stay in the history."""
        if (version is None) == (timestamp is None):
            raise BadArgumentError("Restore takes a version or a time, exactly one of them.")
        old = self.snapshot(version, timestamp)
        return self._replan(
            lambda staged: staged.stage(self._plan_restore(staged.snapshot, old)),
            options,
            WriteSummary("RESTORE"),
        )

    def vacuum(self, *, dry_run: bool = True, **options: Any) -> VacuumReport:
        """Delete data files that nothing needs any more; only tells them unless told otherwise.

        Options are those of VacuumOptions: retain (a timedelta; the table's own
        delta.deletedFileRetentionDuration by default), allow_short_retention, orphans.
        """
        from deltasql.maintenance.vacuum import vacuum_with  # noqa: PLC0415 (rare)

        require_in_catalog(self.refresh())
        return vacuum_with(self._connection, self._row, options, dry_run=dry_run)

    def follow(self) -> int:
        """Bring a read-only import to the head of its log and return the version.

        Raises:
            NotResumableError: the log is no longer the one that was imported.
        """
        from deltasql.api.imports import follow  # noqa: PLC0415 (pyarrow)

        require_in_catalog(self.refresh())
        self._row = follow(self._connection, self._row)
        return self._row.current_version

    def detach(self, *, keep_timestamps: bool = False) -> int:
        """End deltasql's hold: the log becomes complete and unfenced, any Delta writer may go on.

        In-commit timestamps that deltasql switched on are switched off, because not every Delta
        writer knows them: from then on readers take a version's time from its file. With
        `keep_timestamps` they stay.

        The log of a read-only import was never ours: the table is let go without a commit. Safe
        to repeat.

        Raises:
            MirrorLagError: the log could not be completed; nothing was changed.
        """
        state = self.refresh().state
        require_in_catalog(self._row)
        if state is TableState.READ_ONLY:
            return let_go(self._connection, self._row)
        complete_log(self._session, self.table_id, self.version)
        if state is not TableState.DETACHED:  # else one that died before its end
            self._write(
                lambda staged: staged.stage(
                    operations.plan_detach(staged.snapshot, keep_timestamps=keep_timestamps)
                ),
                {},
                state_after=TableState.DETACHED,
            )
            complete_log(self._session, self.table_id, self.version)
        leave(self._connection, self._row)
        return self.version

    def version_of(self, commit_id: str) -> int | None:
        """Return the version that the commit of this token has made, or None."""
        return self._connection.metastore.version_of(self.table_id, commit_id)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the versions, newest first: who, what, when."""
        return self._connection.metastore.history(self.table_id, limit)

    def changes(self, after: int, upto: int | None = None) -> list[FileChange]:
        """Return the files that came and went after one version and up to another."""
        check_version(after, "after")
        check_version(upto, "upto")
        last = self.version if upto is None else upto
        return self._connection.metastore.changes(self.table_id, after, last)

    def detail(self) -> dict[str, Any]:
        """Return what the table is now, as plain values."""
        return table_detail(self._session, self.snapshot())

    def wait_mirrored(self, version: int | None = None, timeout: float = 5.0) -> None:
        """Wait until the log holds a version, helping along where nobody else does.

        Raises:
            MirrorLagError: it did not get there in time; the commit is safe in SQL.
        """
        check_version(version)
        require_in_catalog(self.refresh())
        wanted = self._row.current_version if version is None else version
        wait_mirrored(self._session, self.table_id, wanted, timeout)

    def _plan_restore(self, now: Snapshot, old: Snapshot) -> operations.Planned:
        from deltasql.api.write.in_flight import require_present  # noqa: PLC0415 (restore only)

        old.require_files()
        planned = operations.plan_restore(now, old, {"version": str(old.version)})
        require_present(planned.actions, self.store)
        return planned

    def _remembered(self) -> tuple[Pin, ...]:
        """Return the newest version that this process knows of, for adds: what came since disturbs
        them only if it changed the table's rules.
        """
        known = self._connection.metastore.known_snapshot(self._row)
        return () if known is None else (Pin(lambda: known, STALE),)

    def _replan(self, work: Staging, options: Mapping[str, Any], meant: WriteSummary) -> int:
        """Write, planned again on the newer version when another commit was first."""
        is_fixed = options.get("expected_version") is not None
        tries = 1 if is_fixed else self._connection.settings.commit.retries
        return self._write(work, options, meant, pins=replanned(self.snapshot, max(tries, 1)))

    def _write(
        self,
        work: Staging,
        options: Mapping[str, Any],
        meant: WriteSummary | None = None,
        *,
        pins: Sequence[Pin] = (),
        state_after: TableState = TableState.ACTIVE,
    ) -> int:
        """Commit what `work` stages; on the newest version unless pins are given."""
        commit = Commit(CommitOptions(**options), meant, state_after)
        made = write_table(self._session, self.table_id, work, commit, pins or once(self.snapshot))
        self._row = made.row or self._row
        return made.version
