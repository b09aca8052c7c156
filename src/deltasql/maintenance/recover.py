"""Bring SQL and a log together again after one of them was lost, restored or cloned.

What the log has and SQL lacks is adopted with its bytes as they are; what SQL has and the log
lacks is put. Where both have a version and the bytes differ, nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltasql.crash import crash_point
from deltasql.errors import LogGapError, MirrorConflictError, ObjectNotFoundError
from deltasql.log.commits import newest_commit
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.engine import MirrorEngine
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import commit_key
from deltasql.storage.port import ObjectStore

_DRAIN_S = 24 * 3600.0


class Adopter(Protocol):
    """Makes commits that a log holds above SQL's newest version SQL's own, as they are."""

    def adopt(self, row: TableRow, store: ObjectStore, version: int) -> None:
        """Adopt one version, the next one of the table."""

    def adopt_newer(self, row: TableRow, store: ObjectStore) -> int:
        """Adopt what follows the table's newest version without a gap; return how many versions."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done to bring one table together."""

    table: str
    adopted: int
    put: int
    version: int
    what: str


@dataclass(slots=True)
class Recovery:
    """Recovers the tables of one catalog, under the epoch that it has now."""

    catalog: SqlCatalog
    engine: MirrorEngine
    adopter: Adopter

    def recover(self, row: TableRow) -> Recovered:
        """Bring a table's log and SQL together.

        Raises:
            MirrorConflictError: both have a version and their bytes differ.
            LogGapError: the log has newer versions, but not the next one; it was cleaned up.
        """
        store = self.engine.connection.store_of(row)
        newest = self._newest(row, store)
        if newest is None:
            return self._rebuild_log(row, store)
        self._require_common_past(row, store, newest)
        adopted = self.adopter.adopt_newer(row, store)
        _require_no_gap(row, newest, row.current_version + adopted)
        self._take_over(row, store)
        after = self.catalog.table_by_id(row.table_id)
        if after.state is TableState.CONFLICT:
            self.catalog.set_state(row.table_id, TableState.ACTIVE, expected=[TableState.CONFLICT])
        put = self._put_rest(row)
        what = "the log was ahead of SQL" if adopted else "the log is SQL's own"
        return Recovered(row.full_name, adopted, put, after.current_version, what)

    def _newest(self, row: TableRow, store: ObjectStore) -> int | None:
        """Return the log's newest version; a listing may be old, so SQL's newest is looked up."""
        listed = newest_commit(store)
        last = row.current_version
        if (listed is None or listed < last) and _read(store, commit_key(last)) is not None:
            return last
        return listed

    def _rebuild_log(self, row: TableRow, store: ObjectStore) -> Recovered:
        """Put every version that SQL has once more; checkpoints follow by themselves."""
        with self.catalog.database.write() as tx:
            tx.fetch_all("lock_table", table_id=row.table_id)
            tx.execute("forget_mirror", table_id=row.table_id)
            tx.execute("forget_log_files", table_id=row.table_id)
            tx.execute(
                "forget_mirror_rows", table_id=row.table_id, now=self.engine.connection.now_ms()
            )
            crash_point("before-forget-log")
        crash_point("after-forget-log")
        self._take_over(row, store)
        if row.state is TableState.CONFLICT:
            self.catalog.set_state(row.table_id, TableState.ACTIVE, expected=[TableState.CONFLICT])
        put = self._put_rest(row)
        what = "the log was lost and is rebuilt from SQL"
        return Recovered(row.full_name, 0, put, row.current_version, what)

    def _put_rest(self, row: TableRow) -> int:
        before = self.catalog.table_by_id(row.table_id).mirrored_through
        self.engine.connection.ownership.forget(row.table_id)
        result = self.engine.catch_up(row.table_id, seconds=_DRAIN_S)
        if result.error is not None:
            raise result.error
        return self.catalog.table_by_id(row.table_id).mirrored_through - before

    def _take_over(self, row: TableRow, store: ObjectStore) -> None:
        """Name this catalog and its epoch as the log's owner: others are fenced from now on."""
        identity = self.catalog.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        store.put(OWNER_KEY, encode_owner(owner))
        crash_point("after-take-over")

    def _require_common_past(self, row: TableRow, store: ObjectStore, newest: int) -> None:
        """The newest version that both have must be the same on both sides."""
        last = min(newest, row.current_version)
        wanted = self.catalog.digests(row.table_id, last, last).get(last)
        found = _read(store, commit_key(last))
        if found is not None and wanted is not None and digest(found) != wanted:
            raise MirrorConflictError(
                f"Version {last} of {row.full_name} is another commit in SQL than in the log.",
                hint="See `deltasql mirror verify`; `deltasql mirror repair` decides: "
                "`replace=True` lets SQL win, `recommit=True` also commits the foreign commits "
                "above SQL's.",
                table=row.full_name,
                version=last,
            )


def _require_no_gap(row: TableRow, newest: int, reached: int) -> None:
    """What is cleaned out of the log cannot be adopted, and going on beside it would fork."""
    if newest > reached:
        raise LogGapError(
            f"The log of {row.full_name} reaches version {newest} but lacks {reached + 1}, which "
            f"SQL lacks too.",
            hint="Restore a newer backup of the database; this one is older than what the log "
            "still holds.",
            table=row.full_name,
            missing=reached + 1,
        )


def _read(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.get(key)
    except ObjectNotFoundError:
        return None
