"""Remove expired files of a log, by Delta's rules, and only what SQL and a checkpoint cover.

The floor is set in SQL first; then everything below it goes from the top down, so that a cleanup
that is cut short leaves a log whose old part is still whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltasql.crash import crash_point
from deltasql.errors import ObjectNotFoundError
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.metastore.leases import Lease, Leases
from deltasql.metastore.log_state import INHERITED, LogFiles, RecordedFile
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.checkpoints.check import require_equal
from deltasql.protocol.features import writer_features
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, commit_key
from deltasql.protocol.properties import read_bool, read_interval
from deltasql.storage.port import ObjectStore

_DAY_MS = 24 * 3600 * 1000
_PURPOSE = "cleanup"


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What may go: everything in the log below `floor`, which is a checkpoint's version."""

    floor: int
    checkpoint: RecordedFile
    keys: tuple[str, ...]


@dataclass(slots=True)
class LogCleanup:
    """Cleans the logs of one catalog."""

    catalog: SqlCatalog
    open_store: Callable[[TableRow], ObjectStore]
    require_owner: Callable[[TableRow, ObjectStore], None]
    leases: Leases
    log_files: LogFiles

    def plan(self, row: TableRow, *, now: int) -> CleanupPlan | None:
        """Return what has expired, or None; changes nothing."""
        snapshot = self.catalog.snapshot(row.table_id)
        configuration = snapshot.metadata.configuration
        if not read_bool(configuration, "delta.enableExpiredLogCleanup"):
            return None
        if "checkpointProtection" in writer_features(snapshot.protocol):
            return None
        kept = int(read_interval(configuration, "delta.logRetentionDuration").total_seconds())
        cutoff = (now - kept * 1000) // _DAY_MS * _DAY_MS
        checkpoint = self._checkpoint_before(row, cutoff)
        if checkpoint is None or checkpoint.version < row.log_floor:
            return None
        keys = _below(self.open_store(row), checkpoint.version)
        inherited = self.log_files.all(row.table_id)
        keys += tuple(
            file.key
            for file in inherited
            if file.kind == INHERITED and file.version < checkpoint.version and file.key not in keys
        )
        return CleanupPlan(checkpoint.version, checkpoint, keys) if keys else None

    def run(self, row: TableRow, *, now: int) -> tuple[str, ...]:
        """Remove what has expired and return its keys; nothing while another worker is at it.

        Raises:
            CheckpointError: the checkpoint that must cover the rest is not right; nothing went.
            OwnershipError: the log is not ours; nothing went.
        """
        lease = self.leases.acquire(row.table_id, _PURPOSE)
        if lease is None:
            return ()
        try:
            plan = self.plan(row, now=now)
            return () if plan is None else self._remove(row, plan, lease)
        finally:
            self.leases.release(lease)

    def _remove(self, row: TableRow, plan: CleanupPlan, lease: Lease) -> tuple[str, ...]:
        store = self.open_store(row)
        self._require_covered(row, plan, store)
        with self.catalog.database.write() as tx:
            self.leases.require(tx, lease)
            tx.execute("raise_log_floor", table_id=row.table_id, floor=plan.floor)
            crash_point("before-log-floor")
        crash_point("after-log-floor")
        for key in reversed(plan.keys):
            self.require_owner(row, store)
            store.delete(key)
            crash_point("after-log-delete")
        with self.catalog.database.write() as tx:
            tx.execute("forget_files_below", table_id=row.table_id, floor=plan.floor)
        return plan.keys

    def _checkpoint_before(self, row: TableRow, cutoff: int) -> RecordedFile | None:
        """Return the newest checkpoint of a version that was committed before the cutoff."""
        found = [file for file in self.log_files.all(row.table_id) if file.kind == "checkpoint"]
        for file in sorted(found, key=lambda one: one.version, reverse=True):
            if self.catalog.snapshot(row.table_id, version=file.version).timestamp <= cutoff:
                return file
        return None

    def _require_covered(self, row: TableRow, plan: CleanupPlan, store: ObjectStore) -> None:
        """The checkpoint must be right and its own commit there, or the log would not open."""
        try:
            store.head(commit_key(plan.floor))
        except ObjectNotFoundError:
            raise ObjectNotFoundError(
                f"{commit_key(plan.floor)} is not in the log of {row.full_name}.",
                key=commit_key(plan.floor),
            ) from None
        source = CheckpointSource(self.catalog.snapshot(row.table_id, version=plan.floor))
        known = plan.checkpoint.digest
        with CheckpointWriter(store).fetch(plan.floor, known) as (file, path):
            require_equal(file, path, source)


def _below(store: ObjectStore, floor: int) -> tuple[str, ...]:
    """Return the keys of the log's files whose versions lie below the floor, in order."""
    found = []
    for info in store.list_from(LOG_FOLDER):
        file = LogFile.parse(info.key.removeprefix(LOG_FOLDER))
        if file is not None and max(file.version, file.last_version) < floor:
            found.append((file.version, info.key))
    return tuple(key for _, key in sorted(found))
