"""Load segments of whole versions, or parts of a checkpoint's state, in bulk.

The windows of a segment come from the newest to the oldest, so that the end of every file is known
when it comes: each row is written once, to the table where it stays.

While nobody sees the table, each window is a transaction of its own: other writers of the catalog
wait for a window, not for a segment. The last transaction brings the versions, by which the files
count. A marker in dl_imports says which segment is being loaded. An importer that finds
another marker than its own removes the files that came with it, and whoever set it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltasql.catalog.ahead import read_ahead
from deltasql.catalog.bulk_files import FileLoad
from deltasql.catalog.bulk_lock import (
    ADOPTED,
    CLAIMED,
    IMPORTED,
    ImportLock,
    LoadTerms,
    lock_import,
    not_ready_error,
    noted,
)
from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.bulk_versions import VersionLoad
from deltasql.catalog.commit_encode import decompress
from deltasql.catalog.database import BulkWork, Database, Work
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.objects import paths_of
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.segment_fold import (
    OlderEnds,
    PlacedFiles,
    SegmentFold,
    as_tombstones,
    ascending,
)
from deltasql.catalog.vacuum_check import check_paths
from deltasql.crash import crash_point
from deltasql.protocol.actions import Cdc
from deltasql.protocol.codec import decode_commit, dump_values


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
            with self._transaction(segment, None) as (work, lock):
                files = FileLoad(work, lock, self._numbers)
                for step in steps:
                    self._take(files, segment, step, notes)
        else:
            with closing(read_ahead(folded)) as ahead:
                partitions: set[str] = set()
                for step in ahead:
                    with self._transaction(segment, marker) as (work, lock):
                        files = FileLoad(work, lock, self._numbers, partitions)
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
        with self.database.bulk() as work:
            self._append(work, window, ADOPTED, now=now)
            crash_point("before-adopt-commit")
        crash_point("after-adopt-commit")

    def claim(self, work: BulkWork, window: VersionWindow, *, now: int) -> None:
        """Inside a transaction: write the commit by which a cut-over has won the log.

        Raises:
            TableStateError: the table is at another version.
        """
        self._append(work, window, CLAIMED, now=now)

    def _append(self, work: BulkWork, window: VersionWindow, terms: LoadTerms, *, now: int) -> None:
        segment = Segment(window.first, window.last, 1, [window])
        lock = lock_import(work, self.table_id, window.first, terms)
        row = table_row(work.rows("lock_table", table_id=self.table_id)[0])
        _refuse_vacuumed(work, row, window)
        files = FileLoad(work, lock, self._numbers)
        for step in _fold(segment):
            self._take(files, segment, step, {"imported_at_ms": now}, terms)

    def state_part(self, part: StateFiles, notes: dict[str, Any]) -> None:
        """Write a part of a checkpoint's state; nobody sees it before its version is there."""
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, part.version)
            done = lock.checkpoint_parts if lock.checkpoint == part.checkpoint else 0
            if lock.segment is not None or done != part.number:
                raise not_ready_error(lock, part.version)
            files = FileLoad(work, lock, self._numbers)
            files.insert(part.adds, as_tombstones(part.removes))
            files.insert_partitions()
            work.run(
                "set_import_parts",
                table_id=self.table_id,
                checkpoint=part.checkpoint,
                parts=part.number + 1,
            )
            self._set_properties(work, noted(lock.properties, notes))
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
                self._drop_index(files.work)  # of somebody who indexed the versions before
            if terms.is_import:
                files.close_columns(changes)
            files.empty_partitions(segment.last, has_writers=not terms.is_import)
            versions = VersionLoad(files.work, files.lock, segment.first, segment.last, terms)
            versions.insert(step.windows, notes)
            files.work.run("clear_import_segment", table_id=self.table_id)
            crash_point("before-import-segment")

    def _mark(self, segment: Segment) -> str | None:
        """Mark the table if its windows may be written one by one; return the marker."""
        with self._transaction(segment, None) as (work, lock):
            if lock.state is not TableState.IMPORTING:
                return None
            self._drop_index(work)
            marker = f"{self.run_id} {segment.first}-{segment.last}"
            work.run("set_import_segment", table_id=self.table_id, segment=marker)
            crash_point("before-import-marked")
        return marker

    @contextmanager
    def _transaction(
        self, segment: Segment, marker: str | None
    ) -> Iterator[tuple[BulkWork, ImportLock]]:
        """Open a transaction with the table's lock; without a marker leftovers are removed."""
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, segment.first)
            if marker is not None and lock.segment != marker:
                raise not_ready_error(lock, segment.first)
            if marker is None and lock.segment is not None:
                delete_unfinished(work, self.table_id, lock.current_version)
                work.run("clear_import_segment", table_id=self.table_id)
            yield work, lock

    def _drop_index(self, work: BulkWork) -> None:
        """Drop the index of a table nobody sees; all of its files are indexed in the end."""
        for name in ("purge_stats_num", "purge_stats_text", "purge_stats_columns"):
            work.run(name, table_id=self.table_id)

    def _set_properties(self, work: BulkWork, properties: dict[str, Any]) -> None:
        work.run("set_properties", table_id=self.table_id, properties=dump_values(properties))

    def _numbers(self, work: BulkWork, count: int) -> range:
        """Return ids for files; SQLite, which has one writer, takes them in the transaction."""
        if self.database.dialect.has_row_locks:
            return self.file_ids.take(count)
        end = work.rows("take_ids", name="file_id", amount=count)[0][0]
        return range(end - count, end)


def delete_unfinished(work: BulkWork | Work, table_id: str, version: int) -> None:
    """Delete the files of versions that are not there: those of a segment that did not end."""
    work.run("delete_unfinished_files", table_id=table_id, version=version)
    work.run("delete_unfinished_removed_files", table_id=table_id, version=version)


def _refuse_vacuumed(work: BulkWork, row: TableRow, window: VersionWindow) -> None:
    """Refuse versions of a log that refer to objects that are gone or going."""
    columns = (window.adds[name].to_pylist() for name in ("path", "deletion_vector"))
    paths = [path for add in zip(*columns, strict=True) for path in paths_of(*add)]
    check_paths(work, row, paths, _cdc_paths(window) if row.is_vacuuming else [])


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
