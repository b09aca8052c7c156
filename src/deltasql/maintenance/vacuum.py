"""Delete data files that nothing needs any more, and leftovers of writes that failed.

Nothing goes that a live file, a version within retention, a version that the log does not show
yet, an open transaction or another table refers to. Objects are marked in SQL before they are
deleted, so that no commit can come to need them meanwhile.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.crash import crash_point
from deltasql.errors import BadArgumentError, LeaseLostError
from deltasql.events import TableVacuumed
from deltasql.maintenance.vacuum_store import (
    CHANGE_FOLDER,
    EndedFile,
    Horizon,
    VacuumBatch,
    VacuumStore,
    change_keys,
)
from deltasql.metastore.leases import Lease, Leases
from deltasql.metastore.log_state import require_own_log
from deltasql.metastore.references import Place, nested_folders
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.log_names import LOG_FOLDER, STAGED_PREFIX, WRITE_PREFIX
from deltasql.protocol.properties import read_interval
from deltasql.protocol.schema.columns import physical_partition_columns
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectInfo, ObjectStore

_STAGED = re.compile(rf"{STAGED_PREFIX}[0-9a-f]{{32}}")
_OWN = re.compile(
    rf"(?:{_STAGED.pattern}|{WRITE_PREFIX}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/"
)

# What Hadoop puts beside a file on local disks.
_CHECKSUM = re.compile(r"(?P<folder>.*/)\.(?P<name>[^/]+)\.crc")

_PURPOSE = "vacuum"
_BATCH = 1_000
_THREADS = 8
_RETENTION = "delta.deletedFileRetentionDuration"

# Whatever the retention: what is so young may belong to a write that nobody has noted yet.
_YOUNGEST_ORPHAN = timedelta(hours=1)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OrphanScan:
    """What a table's folder may hold besides orphans."""

    kept: Container[str]
    before: int
    partition_columns: Sequence[str] = ()
    nested: Sequence[str] = ()


def find_orphans(store: ObjectStore, rules: OrphanScan) -> Iterator[ObjectInfo]:
    """Yield the objects that are old enough, not hidden, and needed by nobody.

    In the folders of our own writes by Spark nothing is hidden: what its tasks, its log and its
    checksums have left there has no other owner. Any other folder with a log of its own is another
    table's, whether a catalog knows it or not.
    """
    nested = [f"{folder}/" for folder in rules.nested]
    nested += sorted(_folders_with_a_log(store))
    for info in store.list_from(""):
        if info.modified_ms >= rules.before or info.key in rules.kept:
            continue
        if info.key.startswith(tuple(nested)):
            continue
        if is_hidden(info.key, rules.partition_columns) and not _is_left_by_us(info.key, rules):
            continue
        yield info


def is_hidden(key: str, partition_columns: Sequence[str]) -> bool:
    """Tell whether a key is none of the table's data by Delta's naming rule.

    Names that begin with a dot or an underscore are hidden, except the folder of change data and
    folders of partition columns that are called so.
    """
    shown = tuple(f"{column}=" for column in partition_columns)
    segments = key.removeprefix(CHANGE_FOLDER).split("/")
    return any(
        segment.startswith((".", "_")) and not segment.startswith(shown or ("\0",))
        for segment in segments
    )


def _is_left_by_us(key: str, rules: OrphanScan) -> bool:
    """Tell whether a hidden object is of a write of ours; a checksum stays with its file."""
    if _OWN.match(key) is None:
        return False
    checksum = _CHECKSUM.fullmatch(key)
    return checksum is None or f"{checksum['folder']}{checksum['name']}" not in rules.kept


def _folders_with_a_log(store: ObjectStore) -> set[str]:
    return set(_owners(info.key for info in store.list_from("")))


def _owners(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        folder, mark, _ = key.partition(f"/{LOG_FOLDER}")
        if mark and _STAGED.fullmatch(folder) is None:
            yield f"{folder}/"


@dataclass(frozen=True, slots=True)
class VacuumOptions:
    """How much to keep; None is what the table's own property says."""

    retain: timedelta | None = None
    allow_short_retention: bool = False
    orphans: bool = True


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """An object that may go, or has gone; an orphan is one that no version ever knew."""

    key: str
    size: int
    is_orphan: bool


@dataclass(slots=True)
class Vacuum:
    """Vacuums the tables of one catalog."""

    catalog: SqlCatalog
    vacuum_store: VacuumStore
    open_store: Callable[[TableRow], ObjectStore]
    require_owner: Callable[[TableRow, ObjectStore], None]
    leases: Leases
    clock: Callable[[], int]

    def plan(self, row: TableRow, options: VacuumOptions) -> Iterator[Vacuumed]:
        """Yield what would go; changes nothing.

        Raises:
            BadArgumentError: the retention is negative, or shorter than the table's own.
        """
        snapshot = self.catalog.snapshot(row.table_id)
        horizon = self._horizon(snapshot, options)
        for batch in self._batches(snapshot, horizon, options):
            yield from batch.objects

    def run(self, row: TableRow, options: VacuumOptions) -> Iterator[Vacuumed]:
        """Delete what nothing needs and yield it, batch by batch.

        Raises:
            BadArgumentError: the retention is negative, or shorter than the table's own.
            LeaseLostError: another worker vacuums the table, or it was dropped meanwhile.
            TableNotFoundError, TableStateError: it was dropped before.
            OwnershipError: the log is not ours, or ahead of SQL; nothing more goes.
        """
        lease = self.leases.acquire(row.table_id, _PURPOSE)
        if lease is None:
            raise LeaseLostError(f"Another worker vacuums {row.full_name}.", table=row.full_name)
        try:
            self.require_owner(row, self.open_store(row))  # before anything is marked
            self.vacuum_store.forget_dead_work()
            # with the lease: a drop before is seen here, a later one revokes the lease
            snapshot = self.catalog.snapshot(row.table_id)
            self._finish(row, lease)
            horizon = self._horizon(snapshot, options)
            for batch in self._batches(snapshot, horizon, options):
                keys = set(self.vacuum_store.mark(lease, row, horizon, batch.to_mark()))
                self._delete(row, lease, sorted(keys))
                yield from (one for one in batch.objects if one.key in keys)
        finally:
            self.leases.release(lease)

    def _finish(self, row: TableRow, lease: Lease) -> None:
        """Delete what a vacuum that was cut short has marked."""
        while keys := self.vacuum_store.marked(row.table_id, _BATCH):
            self._delete(row, lease, keys)

    def _delete(self, row: TableRow, lease: Lease, keys: list[str]) -> None:
        store = self.open_store(row)
        self.leases.renew(lease)
        self.require_owner(row, store)
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(store.delete, keys):
                crash_point("after-vacuum-delete")
        self.vacuum_store.unmark(lease, keys)
        crash_point("after-vacuum-unmark")

    def _horizon(self, snapshot: Snapshot, options: VacuumOptions) -> Horizon:
        own = read_interval(snapshot.metadata.configuration, _RETENTION)
        retain = own if options.retain is None else options.retain
        if retain < timedelta():
            raise BadArgumentError(
                f"Table {snapshot.table.full_name} cannot be vacuumed with a retention of "
                f"{retain}: it is negative."
            )
        if retain < own and not options.allow_short_retention:
            raise BadArgumentError(
                f"Table {snapshot.table.full_name} keeps removed files for {own}; {retain} is "
                "shorter.",
                hint=f"Change {_RETENTION}, or allow it (`allow_short_retention=True`): readers "
                "and writers at work may lose their files.",
            )
        # If one of the clocks is wrong, the earlier one deletes less.
        now = min(self.clock(), self.vacuum_store.database_now())
        cutoff = now - int(retain.total_seconds() * 1000)
        young = now - int(max(retain, _YOUNGEST_ORPHAN).total_seconds() * 1000)
        return self.vacuum_store.horizon(snapshot.table, cutoff=cutoff, orphans_before=young)

    def _batches(
        self, snapshot: Snapshot, horizon: Horizon, options: VacuumOptions
    ) -> Iterator[_Batch]:
        kept = KeySet(self.vacuum_store.kept_keys(snapshot.table, horizon))
        told: list[str] = []
        for files in _in_batches(self.vacuum_store.ended(snapshot.table, horizon)):
            batch = _ended_batch(files, kept)
            told += [one.key for one in batch.objects]
            if batch.objects:
                yield batch
        if options.orphans:
            ended = KeySet(told)  # a plan deletes nothing: they are still there to be found
            orphans = self._orphans(snapshot, horizon, kept)
            for some in _in_batches(one for one in orphans if one.key not in ended):
                yield _Batch(some)

    def _orphans(self, snapshot: Snapshot, horizon: Horizon, kept: KeySet) -> Iterator[Vacuumed]:
        row = snapshot.table
        place = Place(row.table_id, row.location, row.location_key)
        with self.catalog.database.read() as tx:
            nested = nested_folders(tx, place)
        columns = physical_partition_columns(snapshot.metadata)
        rules = OrphanScan(kept, horizon.orphans_before, tuple(columns), nested)
        changes: KeySet | None = None
        for info in find_orphans(self.open_store(row), rules):
            if CHANGE_FOLDER in info.key:
                changes = changes or KeySet(self._change_files(row, horizon))
                if info.key in changes:
                    continue
            yield Vacuumed(info.key, info.size, is_orphan=True)

    def _change_files(self, row: TableRow, horizon: Horizon) -> Iterator[str]:
        """Yield the change data of the versions that stay."""
        first = max(horizon.gone_through, row.oldest_version)
        with self.catalog.database.read() as tx:
            yield from change_keys(tx, row, range(first, horizon.version + 1))


@dataclass(frozen=True, slots=True)
class _Batch:
    objects: tuple[Vacuumed, ...]
    files: tuple[EndedFile, ...] = ()

    def to_mark(self) -> VacuumBatch:
        return VacuumBatch(frozenset(one.key for one in self.objects), self.files)


def _in_batches(things: Iterable[T]) -> Iterator[tuple[T, ...]]:
    left = iter(things)
    while some := tuple(islice(left, _BATCH)):
        yield some


def _ended_batch(files: Iterable[EndedFile], kept: KeySet) -> _Batch:
    sizes: dict[str, int] = {}
    ended = []
    for file in files:
        going = [key for key in file.keys if key not in kept]
        if going:
            ended.append(file)
        for key in going:
            # a vector's file holds many vectors, and no row tells its size
            sizes[key] = file.size if key == file.data_key else 0
    objects = tuple(Vacuumed(key, size, is_orphan=False) for key, size in sizes.items())
    return _Batch(objects, tuple(ended))


class KeySet:
    """Tells whether a key may be among those it was made of, at eight bytes a key.

    Two keys of one hash are taken for the same: whoever protects objects by this set keeps one
    too many then.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        hashes = array("q", (hash(key) for key in keys))
        found = pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])
        in_order = found.take(pc.sort_indices(found)) if len(found) else found
        self._sorted = memoryview(in_order.buffers()[1] or b"").cast("q")[: len(found)]

    def __contains__(self, key: object) -> bool:
        place = bisect_left(self._sorted, hash(key))
        return place < len(self._sorted) and self._sorted[place] == hash(key)

    def __len__(self) -> int:
        return len(self._sorted)


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What vacuum deleted, or would delete."""

    objects: tuple[Vacuumed, ...]
    is_dry_run: bool

    @property
    def bytes(self) -> int:
        """The size of the objects, where it is known."""
        return sum(one.size for one in self.objects)

    def __iter__(self) -> Iterator[Vacuumed]:
        return iter(self.objects)


def vacuum_with(
    connection: Connection, row: TableRow, given: Mapping[str, Any], *, dry_run: bool
) -> VacuumReport:
    """Delete what nothing needs, or only tell it; `given` are fields of VacuumOptions."""
    require_own_log(row)
    options = VacuumOptions(**given)
    leases = connection.leases
    vacuum = Vacuum(
        connection.metastore,
        VacuumStore(connection.metastore.database, leases, connection.metastore.identity.epoch),
        connection.store_of,
        connection.ownership.require_sole,
        leases,
        connection.now_ms,
    )
    if dry_run:
        return VacuumReport(tuple(vacuum.plan(row, options)), is_dry_run=True)
    report = VacuumReport(tuple(vacuum.run(row, options)), is_dry_run=False)
    connection.emit(
        TableVacuumed(
            table_id=row.table_id,
            table=row.full_name,
            version=row.current_version,
            objects=len(report.objects),
            bytes=report.bytes,
        )
    )
    return report
