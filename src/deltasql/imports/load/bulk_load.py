"""Loads segments of versions and their files into one table.

The windows of a segment come from the newest to the oldest, so that the end of every file is known
when it comes: each row is written once, to the table where it stays.

While nobody sees the table, each window is a transaction of its own: other writers of the catalog
wait for a window, not for a segment. The last transaction brings the versions, by which the files
count. A marker in dl_imports says which segment is being loaded. An importer that finds
another marker than its own removes the files that came with it, and whoever set it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.crash import crash_point
from deltasql.data.read_ahead import read_ahead
from deltasql.database.port import BulkTransaction, Database, DbTransaction
from deltasql.imports.load.bulk_versions import (
    ADOPTED,
    CLAIMED,
    IMPORTED,
    ImportLock,
    LoadTerms,
    VersionLoad,
    lock_import,
    not_ready_error,
    noted,
)
from deltasql.imports.load.stats_fill import (
    Pairs,
    bulk_index_rows,
    close_columns,
    in_order,
    load_index,
    open_pairs,
)
from deltasql.imports.load.window import (
    ADD_SCHEMA,
    OlderEnds,
    PlacedFiles,
    SegmentFold,
    VersionWindow,
    as_tombstones,
    ascending,
)
from deltasql.metastore.commit.check import check_paths
from deltasql.metastore.commit.encode import decompress
from deltasql.metastore.id_blocks import IdBlocks
from deltasql.metastore.references import paths_of
from deltasql.metastore.snapshot.definition import change_indexed_columns
from deltasql.metastore.stats_index import usable_columns
from deltasql.metastore.table_row import TableRow, TableState, table_row
from deltasql.protocol.actions import Cdc, Metadata, Protocol
from deltasql.protocol.codec import decode_commit, dump_values

_NO_ADDS = ADD_SCHEMA.empty_table()
_REMOVE_COLUMNS = [
    "number",
    "file_key",
    "removed_version",
    "deletion_timestamp",
    "remove_data_change",
    "extended_file_metadata",
]
_NO_HITS = pa.table({"number": pa.array([], pa.int64())})


@dataclass(slots=True)
class FileLoad:
    """Writes files in one transaction; `numbers` gives them their ids.

    `partitions` collects the combinations of partition values that the files have.
    """

    tx: BulkTransaction
    lock: ImportLock
    numbers: Callable[[BulkTransaction, int], range]
    partitions: set[str] = field(default_factory=set)
    _pairs: Pairs | None = None

    def insert(self, live: pa.Table, removed: pa.Table) -> None:
        """Write files and tombstones, and index the files if the table has an index.

        Their ids follow the column `place` where they have one.
        """
        first = self.numbers(self.tx, live.num_rows + removed.num_rows).start
        table_key = pa.scalar(self.lock.table_key, pa.int32())
        for name, rows, start in (
            ("dl_files", live, first),
            ("dl_removed_files", removed, first + live.num_rows),
        ):
            if rows.num_rows:
                numbered = _numbered(rows, first, start)
                keyed = numbered.append_column("table_key", pa.repeat(table_key, rows.num_rows))
                self.tx.insert(name, keyed)
                self._note_added(numbered)

    def end_older(self, older: OlderEnds) -> None:
        """End files from before the segment; removes of files that never were are tombstones."""
        left = older.removes
        if self.lock.has_versions:
            self.tx.stage("create_import_removes", left.select(_REMOVE_COLUMNS))
            self.tx.stage("create_import_adds", older.adds)
            self.tx.stage("create_import_hits", _NO_HITS)
            for name in ("find_import_removed", "find_import_replaced"):
                self.tx.execute(name, table_id=self.lock.table_id)
            for name in ("end_import_hits", "delete_import_hits"):
                self.tx.execute(name)
            hits = pa.array([number for (number,) in self.tx.fetch_all("import_hits")], pa.int64())
            left = left.filter(pc.invert(pc.is_in(left["number"], value_set=hits)))
        unknown = pa.concat_tables([older.tombstones, left.drop_columns("number")])
        self.insert(_NO_ADDS, as_tombstones(unknown))

    def insert_partitions(self) -> None:
        """Write the combinations that were collected."""
        if self.partitions:
            texts = pa.table({"partition_values": sorted(self.partitions)})
            self.tx.stage("create_import_partitions", texts)
            self.tx.execute("insert_import_partitions", table_id=self.lock.table_id)

    def empty_partitions(self, version: int, *, has_writers: bool) -> None:
        """Mark the combinations that have no file any more: filters pass over them.

        Writers cache combinations; where the table has writers, the caches become invalid.
        """
        place = {"table_id": self.lock.table_id, "version": version}
        if self.tx.fetch_all("empty_loaded_partitions", **place) and has_writers:
            self.tx.execute("note_emptied_partitions", **place)

    def change_columns(self, changes: Sequence[tuple[int, Metadata | Protocol]]) -> None:
        """Index the columns that the metadata of one version asks for, from this version on."""
        for version, change in changes:
            if isinstance(change, Metadata):
                wanted = usable_columns(change)
                place = (self.tx, self.lock.table_id, version)
                self._pairs = change_indexed_columns(*place, change, wanted)

    def close_columns(self, changes: Sequence[tuple[int, Metadata | Protocol]]) -> None:
        """End the index of columns that new metadata no longer asks for."""
        pairs = self._open_pairs() if changes else ()
        if pairs:
            close_columns(self.tx, [column for column, _ in pairs], changes)

    def _note_added(self, files: pa.Table) -> None:
        if "added_version" not in files.column_names:
            return  # tombstones
        added = files.filter(pc.is_valid(files["added_version"]))
        if not added.num_rows:
            return
        self.partitions.update(pc.unique(added["partition_values"]).to_pylist())
        pairs = self._open_pairs()
        if pairs:
            rows = bulk_index_rows(added["stats"], added["file_id"], pairs)
            load_index(self.tx, in_order([rows]))

    def _open_pairs(self) -> Pairs:
        if self._pairs is None:
            self._pairs = open_pairs(self.tx, self.lock.table_id, self.lock.current_version)
        return self._pairs


def _numbered(rows: pa.Table, first: int, start: int) -> pa.Table:
    """Return rows with their ids: by their places from `first` on, or in order from `start` on."""
    if "place" not in rows.column_names:
        ids = pa.array(range(start, start + rows.num_rows), pa.int64())
        return rows.append_column("file_id", ids)
    ids = pc.add(rows["place"], pa.scalar(first, pa.int64()))
    return rows.drop_columns("place").append_column("file_id", ids)


@dataclass(frozen=True, slots=True)
class Segment:
    """Whole versions from `first` to `last` in `count` windows, the newest first."""

    first: int
    last: int
    count: int
    windows: Iterable[VersionWindow]


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files of one part of a checkpoint, as they are at its version."""

    checkpoint: str
    number: int
    version: int
    adds: pa.Table
    removes: pa.Table


@dataclass(slots=True)
class BulkLoad:
    """Loads segments of versions into one table."""

    database: Database
    table_id: str
    file_ids: IdBlocks
    run_id: str = ""

    def segment(self, segment: Segment, notes: dict[str, Any]) -> None:
        """Write whole versions; `notes` go to the table's `import_metadata`.

        Raises:
            TableStateError: the segment is not the next one of the table, or another importer has
                taken over.
            UniqueViolationError: an add replaces a file from before the segment; a segment of one
                window never fails so.
            CommitUnknownError: the connection was lost during COMMIT.
        """
        marker = self._mark(segment) if segment.count > 1 else None
        folded = _fold(segment)
        if marker is None:
            steps = list(folded)  # read before the lock is taken
            with self._transaction(segment, None) as (tx, lock):
                files = FileLoad(tx, lock, self._numbers)
                for step in steps:
                    self._take(files, segment, step, notes)
        else:
            with closing(read_ahead(folded)) as ahead:
                partitions: set[str] = set()
                for step in ahead:
                    with self._transaction(segment, marker) as (tx, lock):
                        files = FileLoad(tx, lock, self._numbers, partitions)
                        self._take(files, segment, step, notes)
                        crash_point("before-import-window")
                    crash_point("after-import-window")
        crash_point("after-import-segment")

    def adopt(self, window: VersionWindow, *, now: int) -> None:
        """Make versions that the log has the next ones of a table that takes commits.

        New metadata, which changes what is indexed, comes in a window of one version.

        Raises:
            TableStateError: the table is at another version, or takes no commits for good.
            VacuumedError: vacuum has deleted a file of theirs, or is about to.
            CommitUnknownError: the connection was lost during COMMIT.
        """
        with self.database.bulk() as tx:
            self._append(tx, window, ADOPTED, now=now)
            crash_point("before-adopt-commit")
        crash_point("after-adopt-commit")

    def claim(self, tx: BulkTransaction, window: VersionWindow, *, now: int) -> None:
        """Inside a transaction: write the commit by which a cut-over has won the log.

        Raises:
            TableStateError: the table is at another version.
        """
        self._append(tx, window, CLAIMED, now=now)

    def _append(
        self, tx: BulkTransaction, window: VersionWindow, terms: LoadTerms, *, now: int
    ) -> None:
        segment = Segment(window.first, window.last, 1, [window])
        lock = lock_import(tx, self.table_id, window.first, terms)
        row = table_row(tx.fetch_all("lock_table", table_id=self.table_id)[0])
        _refuse_vacuumed(tx, row, window)
        files = FileLoad(tx, lock, self._numbers)
        for step in _fold(segment):
            self._take(files, segment, step, {"imported_at_ms": now}, terms)

    def state_part(self, part: StateFiles, notes: dict[str, Any]) -> None:
        """Write a part of a checkpoint's state; nobody sees it before its version is there."""
        with self.database.bulk() as tx:
            lock = lock_import(tx, self.table_id, part.version)
            done = lock.checkpoint_parts if lock.checkpoint == part.checkpoint else 0
            if lock.segment is not None or done != part.number:
                raise not_ready_error(lock, part.version)
            files = FileLoad(tx, lock, self._numbers)
            files.insert(part.adds, as_tombstones(part.removes))
            files.insert_partitions()
            tx.execute(
                "set_import_parts",
                table_id=self.table_id,
                checkpoint=part.checkpoint,
                parts=part.number + 1,
            )
            self._set_properties(tx, noted(lock.properties, notes))
            crash_point("before-import-part")
        crash_point("after-import-part")

    def _take(
        self,
        files: FileLoad,
        segment: Segment,
        step: _Step,
        notes: dict[str, Any],
        terms: LoadTerms = IMPORTED,
    ) -> None:
        """Write the files of a window; with the last one what is not files, too."""
        changes = [one for window in step.windows for one in window.changes]
        if not terms.is_import:
            files.change_columns(changes)
        if step.older is not None:
            files.end_older(step.older)
        files.insert(step.placed.live, step.placed.removed)
        if step.is_last:
            files.insert_partitions()
            if files.lock.segment is not None:
                self._drop_index(files.tx)  # of somebody who indexed the versions before
            if terms.is_import:
                files.close_columns(changes)
            files.empty_partitions(segment.last, has_writers=not terms.is_import)
            versions = VersionLoad(files.tx, files.lock, segment.first, segment.last, terms)
            versions.insert(step.windows, notes)
            files.tx.execute("clear_import_segment", table_id=self.table_id)
            crash_point("before-import-segment")

    def _mark(self, segment: Segment) -> str | None:
        """Mark the table if its windows may be written one by one; return the marker."""
        with self._transaction(segment, None) as (tx, lock):
            if lock.state is not TableState.IMPORTING:
                return None
            self._drop_index(tx)
            marker = f"{self.run_id} {segment.first}-{segment.last}"
            tx.execute("set_import_segment", table_id=self.table_id, segment=marker)
            crash_point("before-import-marked")
        return marker

    @contextmanager
    def _transaction(
        self, segment: Segment, marker: str | None
    ) -> Iterator[tuple[BulkTransaction, ImportLock]]:
        """Open a transaction with the table's lock; without a marker leftovers are removed."""
        with self.database.bulk() as tx:
            lock = lock_import(tx, self.table_id, segment.first)
            if marker is not None and lock.segment != marker:
                raise not_ready_error(lock, segment.first)
            if marker is None and lock.segment is not None:
                delete_unfinished(tx, self.table_id, lock.current_version)
                tx.execute("clear_import_segment", table_id=self.table_id)
            yield tx, lock

    def _drop_index(self, tx: BulkTransaction) -> None:
        """Drop the index of a table nobody sees; all of its files are indexed in the end."""
        for name in ("purge_stats_num", "purge_stats_text", "purge_stats_columns"):
            tx.execute(name, table_id=self.table_id)

    def _set_properties(self, tx: BulkTransaction, properties: dict[str, Any]) -> None:
        tx.execute("set_properties", table_id=self.table_id, properties=dump_values(properties))

    def _numbers(self, tx: BulkTransaction, count: int) -> range:
        """Return ids for files; SQLite, which has one writer, takes them in the transaction."""
        if self.database.dialect.has_row_locks:
            return self.file_ids.take(count)
        end = tx.fetch_all("take_ids", name="file_id", amount=count)[0][0]
        return range(end - count, end)


def delete_unfinished(tx: BulkTransaction | DbTransaction, table_id: str, version: int) -> None:
    """Delete the files of versions that are not there: those of a segment that did not end."""
    tx.execute("delete_unfinished_files", table_id=table_id, version=version)
    tx.execute("delete_unfinished_removed_files", table_id=table_id, version=version)


def _refuse_vacuumed(tx: BulkTransaction, row: TableRow, window: VersionWindow) -> None:
    """Refuse versions of a log that refer to objects that are gone or going."""
    columns = (window.adds[name].to_pylist() for name in ("path", "deletion_vector"))
    paths = [path for add in zip(*columns, strict=True) for path in paths_of(*add)]
    check_paths(tx, row, paths, _cdc_paths(window) if row.is_vacuuming else [])


def _cdc_paths(window: VersionWindow) -> list[str]:
    rows = window.versions.select(["version", "payload", "payload_bytes"])
    columns = (column.to_pylist() for column in rows.columns)
    return [
        action.path
        for version, packed, size in zip(*columns, strict=True)
        for action in decode_commit(decompress(packed, size), version=version, lenient=True)
        if isinstance(action, Cdc)
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """What a window brings. The last one, the oldest, also ends files from before the segment, and
    has all windows of the segment in ascending order, without their files.
    """

    placed: PlacedFiles
    older: OlderEnds | None = None
    windows: Sequence[VersionWindow] = ()

    @property
    def is_last(self) -> bool:
        """Whether it completes the segment."""
        return self.older is not None


def _fold(segment: Segment) -> Iterator[_Step]:
    """Place the files of each window; the next one may be on its way while one is written."""
    fold, seen = SegmentFold(), []
    for window in segment.windows:
        placed = fold.take(window)
        seen.append(window.without_files())
        if window.first == segment.first:
            yield _Step(placed, fold.older(), ascending(seen))
        else:
            yield _Step(placed)
