"""What vacuum asks of the catalog: which files have ended for good, and marks before each delete.

An object is marked under its table's row lock, in a transaction that looks once more at whatever
was committed since the plan. From then on a commit that would refer to the object is refused, so
what is marked stays free to go, also for the next vacuum when this one is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import OwnershipError, TableNotFoundError
from deltasql.metastore.commit.check import require_open
from deltasql.metastore.commit.encode import read_payload
from deltasql.metastore.leases import Lease, Leases
from deltasql.metastore.references import Place, keys_below, neighbours_keys, own_keys
from deltasql.metastore.table_row import TableRow, locked_table
from deltasql.protocol.actions import Cdc
from deltasql.protocol.codec import decode_commit

CHANGE_FOLDER = "_change_data/"
# A write is noted by its writer's clock, its files have the times of their store.
_CLOCKS_DIFFER_MS = 3600 * 1000
_PATHS = pa.schema([("path", pa.string()), ("deletion_vector", pa.string())])
_ENDED = pa.schema([("file_id", pa.int64()), *_PATHS, ("size", pa.int64())])


@dataclass(frozen=True, slots=True)
class Horizon:
    """Up to where files may go: those that ended with `gone_through` or before it.

    `version` was the table's newest when this was fixed; `orphans_before` is a time in
    milliseconds.
    """

    version: int
    gone_through: int
    orphans_before: int


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A file of versions that may be forgotten, and the objects it needs."""

    file_id: int
    keys: tuple[str, ...]
    data_key: str | None
    size: int


@dataclass(frozen=True, slots=True)
class VacuumBatch:
    """Objects that nothing needs, and the ended files that some of them belong to."""

    keys: frozenset[str]
    ended: tuple[EndedFile, ...] = ()


@dataclass(slots=True)
class VacuumStore:
    """Plans and marks in one catalog."""

    database: Database
    leases: Leases
    epoch: int

    def horizon(self, row: TableRow, *, cutoff: int, orphans_before: int) -> Horizon:
        """Return what may go: nothing that a version since `cutoff` or the log still shows."""
        with self.database.read() as tx:
            now = tx.now_ms()
            first = tx.fetch_all("first_version_since", table_id=row.table_id, cutoff=cutoff)[0][0]
            open_since = tx.fetch_all("oldest_open_work", table_id=row.table_id, now=now)[0][0]
        through = row.current_version if first is None else first - 1
        if open_since is not None:
            orphans_before = min(orphans_before, open_since - _CLOCKS_DIFFER_MS)
        return Horizon(row.current_version, min(through, row.mirrored_through), orphans_before)

    def database_now(self) -> int:
        """Return the database's time in milliseconds."""
        with self.database.read() as tx:
            return tx.now_ms()

    def kept_keys(self, row: TableRow, horizon: Horizon) -> Iterator[str]:
        """Yield the keys of all objects that must stay."""
        place = Place(row.table_id, row.location, row.location_key)
        live = self.database.queries.text(
            "files_at", columns="f.path, f.deletion_vector", live_filter="", filter="", live_hint=""
        )
        kept = self.database.queries.text("kept_ended_files")
        params = {"table_id": row.table_id, "version": horizon.version}
        for batch in self.database.arrow_batches(live, params, _PATHS):
            yield from own_keys(place, _pairs(batch))
        params["gone_through"] = horizon.gone_through
        for batch in self.database.arrow_batches(kept, params, _PATHS):
            yield from own_keys(place, _pairs(batch))
        with self.database.read() as tx:
            yield from neighbours_keys(tx, place)

    def ended(self, row: TableRow, horizon: Horizon) -> Iterator[EndedFile]:
        """Yield the ended files whose objects may go where nothing else needs them."""
        place = Place(row.table_id, row.location, row.location_key)
        text = self.database.queries.text("ended_files_to_vacuum")
        params = {"table_id": row.table_id, "gone_through": horizon.gone_through}
        for batch in self.database.arrow_batches(text, params, _ENDED):
            for file in batch.to_pylist():
                keys = own_keys(place, [(file["path"], file["deletion_vector"])])
                data = next(own_keys(place, [(file["path"], None)]), None)
                yield EndedFile(file["file_id"], tuple(keys), data, file["size"] or 0)

    def mark(self, lease: Lease, row: TableRow, horizon: Horizon, batch: VacuumBatch) -> list[str]:
        """Mark the objects of a batch and return those that may go.

        Raises:
            LeaseLostError, OwnershipError, TableStateError: somebody else is in charge now.
        """
        with self.database.write() as tx:
            locked = self._require_unchanged(tx, row, horizon)
            self.leases.require(tx, lease)  # behind the table's lock, as a drop revokes it
            going = batch.keys.difference(_needed_since(tx, row, horizon))
            if any(CHANGE_FOLDER in key for key in going):
                newer = range(horizon.version + 1, locked.current_version + 1)
                going = going.difference(change_keys(tx, row, newer))
            ids = [one.file_id for one in batch.ended if not going.isdisjoint(one.keys)]
            now, keys = tx.now_ms(), sorted(going)
            if keys:
                tx.execute("set_vacuuming", table_id=row.table_id)
                tx.execute_many("insert_vacuum_marks", {"key": keys}, table_id=row.table_id)
            if ids:
                tx.execute_many("insert_vacuumed", {"file_id": ids}, table_id=row.table_id, now=now)
            crash_point("before-vacuum-marks")
        crash_point("after-vacuum-marks")
        return keys

    def marked(self, table_id: str, most: int) -> list[str]:
        """Return objects that are marked and perhaps not yet deleted."""
        rows = self.database.fetch_all("vacuum_marks", table_id=table_id, most=most)
        return [key for (key,) in rows]

    def unmark(self, lease: Lease, keys: Sequence[str]) -> None:
        """Record that marked objects are deleted.

        Raises:
            LeaseLostError: another worker vacuums the table, or it was dropped; the marks stay.
        """
        with self.database.write() as tx:
            tx.fetch_all("lock_table", table_id=lease.table_id)
            self.leases.require(tx, lease)
            if keys:
                tx.execute_many("delete_vacuum_marks", {"key": list(keys)}, table_id=lease.table_id)
            tx.execute("end_vacuuming", table_id=lease.table_id)

    def forget_dead_work(self) -> None:
        """Stop waiting for writers that have not been heard of for long."""
        with self.database.write() as tx:
            tx.execute("forget_open_work", now=tx.now_ms())

    def _require_unchanged(self, tx: DbTransaction, row: TableRow, horizon: Horizon) -> TableRow:
        rows = tx.fetch_all("lock_table", table_id=row.table_id)
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {row.table_id}.")
        locked = locked_table(rows[0])
        require_open(locked, epoch=self.epoch)
        if locked.row.current_version < horizon.version:
            raise OwnershipError(
                f"Table {row.full_name} went back to version {locked.row.current_version}."
            )
        return locked.row


def change_keys(tx: DbTransaction, row: TableRow, versions: Iterable[int]) -> Iterator[str]:
    """Yield the keys of versions' change data; only their commits name it."""
    for version in versions:
        payload = read_payload(tx, row.table_id, version)
        actions = decode_commit(payload, version=version, lenient=True)
        paths = [action.path for action in actions if isinstance(action, Cdc)]
        yield from keys_below((row.location, row.location_key), paths, own=True)


def _needed_since(tx: DbTransaction, row: TableRow, horizon: Horizon) -> set[str]:
    """Return what was committed since the plan, here and by neighbours."""
    place = Place(row.table_id, row.location, row.location_key)
    newer = tx.fetch_all("files_since", table_id=row.table_id, version=horizon.version)
    return {*own_keys(place, newer), *neighbours_keys(tx, place)}


def _pairs(batch: pa.RecordBatch) -> Iterable[tuple[str, str | None]]:
    return zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
