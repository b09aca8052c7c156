"""Table: read and write one table; every write is one commit and returns its version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from deltasql.catalog.catalog import FileChange
from deltasql.catalog.history import HistoryEntry
from deltasql.catalog.repeats import WriteSummary
from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.snapshots import Snapshot, gone_error, require_in_catalog
from deltasql.client import plans
from deltasql.client.arguments import check_filter, check_version, columns_or_none
from deltasql.client.constraint_checks import RowsInPlace
from deltasql.client.detail import table_detail
from deltasql.client.repeats import count_rows, written_before
from deltasql.client.rewrite import choose_groups, rewrite, write_spec
from deltasql.client.scan import Scan
from deltasql.client.schema_changes import SchemaMode
from deltasql.client.session import Session
from deltasql.client.staging import CommitOptions, StagedTable, to_actions
from deltasql.client.take_back import leave, let_go
from deltasql.client.times import to_ms
from deltasql.client.waiting import complete_log, wait_mirrored
from deltasql.errors import (
    BadArgumentError,
    CommitConflictError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.events import SnapshotOpened
from deltasql.protocol.actions import Action, Add, Metadata, Protocol
from deltasql.protocol.schema import StructField, StructType
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

if TYPE_CHECKING:
    from deltasql.client.vacuum import VacuumReport

_NOTHING = CommitOptions()


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
        return self.write_with(
            lambda staged: staged.append(data, schema_mode=schema_mode), meant, **options
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

        def work(staged: StagedTable) -> None:
            staged.overwrite(data, where=where, schema_mode=schema_mode)

        return self.write_with(work, WriteSummary("WRITE", "Overwrite"), **options)

    def write_with(
        self,
        work: Callable[[StagedTable], None],
        meant: WriteSummary | None = None,
        **options: Any,
    ) -> int:
        """Commit what `work` stages on the newest version; a write made before is not repeated."""
        chosen = CommitOptions(**options)
        found = self._already(chosen, meant)
        return found if found is not None else self._once(work, chosen)

    def delete(self, where: str, **options: Any) -> int:
        """Remove all rows of the partitions that `where` names."""
        return self._replan(
            lambda snapshot: plans.plan_delete(snapshot, where), options, WriteSummary("DELETE")
        )

    def commit(
        self,
        actions: Iterable[Action | Mapping[str, Any]],
        *,
        expected_version: int | None = None,
        **options: Any,
    ) -> int:
        """Commit Delta actions as they are; with `expected_version`, only on that version."""
        given = to_actions(actions)
        chosen = CommitOptions(expected_version=expected_version, **options)
        found = None if chosen.txn is None else self._already(chosen)
        if found is not None:
            return found

        def work(staged: StagedTable) -> None:
            staged.commit(given, expected_version=expected_version)

        if expected_version is None and all(isinstance(action, Add) for action in given):
            return self._blind(work, chosen)
        return self._once(work, chosen)

    def compact(
        self, where: str | None = None, target_size: int | None = None, **options: Any
    ) -> int:
        """Rewrite small files into bigger ones; no row changes. Returns the version."""
        found = self._already(CommitOptions(**options), WriteSummary("OPTIMIZE"))
        if found is not None:
            return found
        snapshot = self.snapshot()
        plans.require_active(snapshot)
        chosen = None if where is None else plans.partition_filter(snapshot, where)
        files = plans.live_adds(snapshot, None if chosen is None else chosen.predicate)
        files = [add for add in files if chosen is None or chosen(add)]
        spec = write_spec(
            snapshot,
            self._connection.new_id,
            self._connection.now_ms(),
            target_size=target_size,
            data_change=False,
        )
        store = self._connection.store_of(snapshot.table)
        groups = choose_groups(files, spec.file_size)
        if not groups:
            return snapshot.version
        self._session.require_root(snapshot.table)
        staged = StagedTable(self._session, snapshot)
        staged.begin_writing()
        try:
            with staged.writing_data():
                new = [add for group in groups for add in rewrite(group, snapshot, store, spec)]
            old = [add for group in groups for add in group]
            staged.stage(plans.plan_compact(snapshot, old, new))
            return self._commit_staged(staged, CommitOptions(**options))
        finally:
            staged.end()

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

        def plan(snapshot: Snapshot) -> plans.Planned:
            planned = plans.plan_alter(
                snapshot,
                add=add,
                set_properties=properties,
                unset=unset,
                description=description,
            )
            return RowsInPlace(snapshot, self.store, self._connection.store_at).checked(planned)

        meant = WriteSummary(plans.alter_note(add, properties, unset).operation)
        return self._replan(plan, options, meant)

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
            lambda now: self._plan_restore(now, old), options, WriteSummary("RESTORE")
        )

    def vacuum(self, *, dry_run: bool = True, **options: Any) -> VacuumReport:
        """Delete data files that nothing needs any more; only tells them unless told otherwise.

        Options are those of VacuumOptions: retain (a timedelta; the table's own
        delta.deletedFileRetentionDuration by default), allow_short_retention, orphans.
        """
        from deltasql.client.vacuum import vacuum_with  # noqa: PLC0415 (rare)

        require_in_catalog(self.refresh())
        return vacuum_with(self._connection, self._row, options, dry_run=dry_run)

    def follow(self) -> int:
        """Bring a read-only import to the head of its log and return the version.

        Raises:
            NotResumableError: the log is no longer the one that was imported.
        """
        from deltasql.client.import_face import follow  # noqa: PLC0415 (pyarrow)

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
            snapshot = self.snapshot()
            planned = plans.plan_detach(snapshot, keep_timestamps=keep_timestamps)
            self._commit_planned(snapshot, planned, _NOTHING, TableState.DETACHED)
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

    def _plan_restore(self, now: Snapshot, old: Snapshot) -> plans.Planned:
        from deltasql.client.presence import require_present  # noqa: PLC0415 (restore only)

        old.require_files()
        planned = plans.plan_restore(now, old, {"version": str(old.version)})
        require_present(planned.actions, self.store)
        return planned

    def _blind(self, work: Callable[[StagedTable], None], options: CommitOptions) -> int:
        """Commit adds on the newest version this process knows of: what came since disturbs them
        only if it changed the table's rules, and then they are tried once more on the newest.
        """
        known = self._connection.metastore.known_snapshot(self._row)
        if known is not None:
            staged = StagedTable(self._session, known)
            work(staged)
            token = options.commit_id or self._connection.new_id()
            try:
                return self._commit_staged(staged, options, commit_id=token)
            except (CommitConflictError, TableStateError, TableNotFoundError):
                options = replace(options, commit_id=token)
        return self._once(work, options)

    def _once(self, work: Callable[[StagedTable], None], options: CommitOptions) -> int:
        """Do the work on the newest version; files are written once, whatever wins meanwhile."""
        staged = StagedTable(self._session, self.snapshot())
        try:
            work(staged)
            return self._commit_staged(staged, options)
        finally:
            staged.end()

    def _replan(
        self,
        plan: Callable[[Snapshot], plans.Planned],
        options: Mapping[str, Any],
        meant: WriteSummary,
    ) -> int:
        """Plan and commit, again on the newer version when another commit was first."""
        chosen = CommitOptions(**options)
        found = self._already(chosen, meant)
        if found is not None:
            return found
        commit_id = chosen.commit_id or self._connection.new_id()
        tries = (
            1 if chosen.expected_version is not None else self._connection.settings.commit.retries
        )
        for left in range(max(tries, 1), 0, -1):
            snapshot = self.snapshot()
            try:
                return self._commit_planned(snapshot, plan(snapshot), chosen, commit_id=commit_id)
            except CommitConflictError:
                if left == 1:
                    raise
        raise AssertionError("unreachable")

    def _commit_planned(
        self,
        snapshot: Snapshot,
        planned: plans.Planned,
        options: CommitOptions,
        state_after: TableState = TableState.ACTIVE,
        commit_id: str | None = None,
    ) -> int:
        staged = StagedTable(self._session, snapshot)
        staged.stage(planned)
        return self._commit_staged(staged, options, state_after, commit_id)

    def _commit_staged(
        self,
        staged: StagedTable,
        options: CommitOptions,
        state_after: TableState = TableState.ACTIVE,
        commit_id: str | None = None,
    ) -> int:
        if staged.is_empty and options.txn is None and _is_expected(staged.snapshot, options):
            return staged.snapshot.version
        token = commit_id or options.commit_id or self._connection.new_id()
        request = staged.request(options, token, state_after)
        try:
            done = self._session.commit([request])[0]
        except CommitConflictError:
            found = None if options.txn is None else self._already(options)
            if found is None:
                raise
            return found  # the same batch, sent twice at once
        if not any(isinstance(action, Metadata | Protocol) for action in request.actions):
            self._row = replace(
                done.before, current_version=max(done.version, done.before.current_version)
            )
        return done.version

    def _already(self, options: CommitOptions, meant: WriteSummary | None = None) -> int | None:
        return written_before(self._session, self.table_id, options, meant)


def _is_expected(snapshot: Snapshot, options: CommitOptions) -> bool:
    return options.expected_version in (None, snapshot.version)
