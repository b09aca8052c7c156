"""Where a write begins in one process and is committed in another.

What is written to is pinned first, as a value that can be sent: a table at one version, or a table
that the commit will make. Files are written by whoever has it; the commit is checked against
everything that happened since, as if one process had done it all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from deltasql.api.session import LazySession, Session
from deltasql.api.write.create import PlannedTable, TableSpec, create_with, plan_table, recheck
from deltasql.api.write.driver import Commit, Pin, write_table, written_before
from deltasql.api.write.table_write import CommitOptions, TableWrite
from deltasql.errors import OwnershipError
from deltasql.metastore.commit.request import WriteSummary
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What a write goes to, as it was when the write began; `new` is a table to be made."""

    row: TableRow
    epoch: int
    began_ms: int
    new: PlannedTable | None = None


@dataclass(frozen=True, slots=True)
class TwoStepWrite:
    """The writes of one session."""

    lazy: LazySession

    @property
    def session(self) -> Session:
        """The open catalog."""
        return self.lazy.session

    def before(
        self, table_id: str, options: CommitOptions, meant: WriteSummary | None = None
    ) -> int | None:
        """Return the version to report for a write that was made before, or None."""
        return written_before(self.session, table_id, options, meant)

    def existing(self, table_id: str, version: int | None = None) -> WriteTarget:
        """Pin a table at its newest version, or at an older one that its rows come from."""
        found = self.session.connection.metastore.table_by_id(table_id)
        self.session.require_root(found)
        if version is not None:
            found = replace(found, current_version=min(version, found.current_version))
        return WriteTarget(found, self._epoch, self.session.connection.now_ms())

    def new(self, spec: TableSpec) -> WriteTarget:
        """Plan a table that its first rows will make.

        Raises:
            TableExistsError: the name or the location is taken.
        """
        self.lazy.create().connection.check_settings(spec.properties)
        planned = plan_table(self.session, spec)
        return WriteTarget(planned.row, self._epoch, self.session.connection.now_ms(), planned)

    def stage(self, target: WriteTarget) -> TableWrite:
        """Return the table to stage work on."""
        return TableWrite(self.session, self._snapshot(target))

    def commit(
        self, target: WriteTarget, work: Callable[[TableWrite], None], options: CommitOptions
    ) -> int:
        """Commit what `work` stages; a write that was made before is not repeated.

        Raises:
            CommitConflictError: another commit since the pinning contradicts it.
            TableExistsError: somebody else has made the table.
            OwnershipError: the catalog was recovered since.
        """
        found = None if target.new else self.before(target.row.table_id, options)
        if found is not None:
            return found
        self._require_epoch(target)
        if target.new is None:
            commit = Commit(options, began_ms=target.began_ms)
            pins = (Pin(lambda: self._snapshot(target)),)
            return write_table(self.session, target.row.table_id, work, commit, pins).version
        staged = self.stage(target)
        try:
            work(staged)
            request = staged.request(options, options.commit_id or self.session.connection.new_id())
            recheck(self.session, target.new)
            return create_with(self.session, target.new, request)
        finally:
            staged.end()

    @property
    def _epoch(self) -> int:
        return self.session.connection.metastore.identity.epoch

    def _require_epoch(self, target: WriteTarget) -> None:
        if target.epoch != self._epoch:
            raise OwnershipError(
                f"The catalog was recovered under epoch {self._epoch}; the write began under "
                f"{target.epoch}.",
                hint="Write the rows again.",
            )

    def _snapshot(self, target: WriteTarget) -> Snapshot:
        if target.new is not None:
            return target.new.snapshot(self.session)
        row = target.row
        found = self.session.connection.metastore.snapshot(
            row.table_id, version=row.current_version
        )
        return replace(found, table=row)  # as it was pinned
