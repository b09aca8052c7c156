"""Retention of the catalog itself: old versions are forgotten, the state of the oldest kept is not.

The floor is set first, under the table's lock: from then on nobody reads or compares what lies
below it, and the rows go in small transactions that stop no writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import TableNotFoundError
from deltasql.metastore.table_row import TableRow, table_row

_STEP = 500
_STATISTICS = {"num": "forget_stats_num", "text": "forget_stats_text"}
# Of the first four the newest row at or below the floor stays.
_SELDOM_CHANGED = (
    "forget_metadata",
    "forget_protocol",
    "forget_domains",
    "forget_txn_actions",
    "forget_partitions",
)


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """Versions below `floor` may go, and ended files of `tombstones_through` and before."""

    floor: int
    tombstones_through: int
    versions: int


@dataclass(slots=True)
class Forgetting:
    """Forgets old versions of one catalog's tables."""

    database: Database

    def plan(self, row: TableRow, *, cutoff: int, tombstones: timedelta) -> ForgetPlan:
        """Return what may be forgotten: what is older than `cutoff` and not in the log any more.

        Tombstones stay `tombstones` longer than their versions: checkpoints hold them.
        """
        with self.database.read() as tx:
            first = tx.fetch_all("first_version_since", table_id=row.table_id, cutoff=cutoff)[0][0]
            newest = row.current_version if first is None else first - 1
            floor = max(min(newest, row.log_floor, row.mirrored_through), row.oldest_version)
            through = _expired_through(tx, row, floor, tombstones)
        return ForgetPlan(floor, through, floor - row.oldest_version)

    def plan_below(self, row: TableRow, floor: int, *, tombstones: timedelta) -> ForgetPlan:
        """Return what may be forgotten where nothing below `floor` is wanted."""
        with self.database.read() as tx:
            through = _expired_through(tx, row, floor, tombstones)
        return ForgetPlan(floor, through, max(0, floor - row.oldest_version))

    def run(self, row: TableRow, plan: ForgetPlan) -> None:
        """Forget what the plan says; safe to repeat, also after a run that was cut short."""
        self._raise_floor(row, plan.floor)
        crash_point("after-history-floor")
        self._forget_ended(row, plan.tombstones_through)
        oldest = self.database.fetch_all("oldest_version_row", table_id=row.table_id)[0][0]
        for upto in range(oldest, plan.floor, _STEP):
            with self.database.write() as tx:
                place = {"table_id": row.table_id, "floor": min(upto + _STEP, plan.floor)}
                tx.execute("forget_chunks", **place)
                tx.execute("forget_mirror_status", **place)
                tx.execute("forget_versions", **place)
            crash_point("after-forget-versions")
        with self.database.write() as tx:
            for name in _SELDOM_CHANGED:
                tx.execute(name, table_id=row.table_id, floor=plan.floor)

    def _raise_floor(self, row: TableRow, floor: int) -> None:
        with self.database.write() as tx:
            rows = tx.fetch_all("lock_table", table_id=row.table_id)
            if not rows:
                raise TableNotFoundError(f"There is no table with the id {row.table_id}.")
            locked = table_row(rows[0])
            if floor > locked.oldest_version:
                tx.execute("raise_history_floor", table_id=row.table_id, floor=floor)
            crash_point("before-history-floor")

    def _forget_ended(self, row: TableRow, through: int) -> None:
        oldest = self.database.fetch_all("oldest_removed_version", table_id=row.table_id)[0][0]
        if oldest is None or oldest > through:
            return
        place = {"table_id": row.table_id, "through": through}
        # the index of statistics is in the order of its columns: one walk over each
        for key, kind in self.database.fetch_all("stats_keys", table_id=row.table_id):
            with self.database.write() as tx:
                tx.execute(_STATISTICS[kind], stats_key=key, **place)
        for upto in range(oldest, through + 1, _STEP):
            place["through"] = min(upto + _STEP - 1, through)
            with self.database.write() as tx:
                tx.execute("forget_removed_files", **place)
            crash_point("after-forget-files")


def _expired_through(tx: DbTransaction, row: TableRow, floor: int, tombstones: timedelta) -> int:
    """Return the newest version whose tombstones no checkpoint from `floor` on needs; -1 if none.

    The times of versions that are forgotten already are unknown: their tombstones stay until a
    version after them has expired, too.
    """
    moment = tx.fetch_all("version_time", table_id=row.table_id, version=floor)[0][0]
    expired = moment - int(tombstones.total_seconds() * 1000)
    kept = tx.fetch_all("first_version_since", table_id=row.table_id, cutoff=expired)[0][0]
    oldest = tx.fetch_all("oldest_version_row", table_id=row.table_id)[0][0]
    if kept is None:
        return min(floor, row.current_version)
    return min(floor, kept - 1) if kept > oldest else -1
