"""Load segments of whole versions, or parts of a checkpoint's state, in bulk.

The windows of a segment come from the newest to the oldest, so that the end of every file is known
when it comes: each row is written once, to the table where it stays.

While nobody sees the table, each window is a transaction of its own: other writers of the catalog
wait for a window, not for a segment. The last transaction brings the versions, by which the files
count. A marker in dl_imports says which segment is being loaded. An importer that finds
another marker than its own removes the files that came with it, and whoever set it is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltasql.catalog.bulk_files import FileLoad
from deltasql.catalog.bulk_lock import (
    ImportLock,
    lock_import,
    not_ready_error,
    noted,
)
from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.bulk_versions import VersionLoad
from deltasql.catalog.database import BulkWork, Database
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.rows import TableState
from deltasql.catalog.segment_fold import SegmentFold, as_tombstones, ascending
from deltasql.crash import crash_point
from deltasql.protocol.codec import dump_values


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

    def segment(self, segment: Segment, notes: dict[str, Any]) -> None:
        """Write whole versions; `notes` go to the table's `import_metadata`.

        Raises:
            TableStateError: the segment is not the next one of the table, or another importer has
                taken over.
            UniqueViolationError: an add replaces a file from before the segment; a segment of one
                window never fails so.
            CommitUnknownError: the connection was lost during COMMIT.
        """
        load = _SegmentLoad(self, segment)
        marker = self._mark(segment) if segment.count > 1 else None
        if marker is None:
            windows = list(segment.windows)  # read before the lock is taken
            with self._transaction(segment, None) as (work, lock):
                files = FileLoad(work, lock, self._numbers)
                for window in windows:
                    load.take(files, window)
                load.end(files, notes)
        else:
            for window in segment.windows:
                with self._transaction(segment, marker) as (work, lock):
                    files = FileLoad(work, lock, self._numbers)
                    load.take(files, window)
                    if window.first == segment.first:
                        load.end(files, notes)
                    else:
                        files.insert_partitions()
                    crash_point("before-import-window")
                crash_point("after-import-window")
        crash_point("after-import-segment")

    def state_part(self, part: StateFiles, notes: dict[str, Any]) -> None:
        """Write a part of a checkpoint's state; nobody sees it before its version is there."""
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, part.version)
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

    def _mark(self, segment: Segment) -> str | None:
        """Mark the table if its windows may be written one by one; return the marker."""
        with self._transaction(segment, None) as (work, lock):
            is_indexed = bool(work.rows("stats_columns", table_id=self.table_id))
            if lock.state is not TableState.IMPORTING or is_indexed:
                return None
            marker = f"{segment.first}-{segment.last}-{uuid.uuid4()}"
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
                place = {"table_id": self.table_id, "version": lock.current_version}
                work.run("delete_unfinished_files", **place)
                work.run("delete_unfinished_removed_files", **place)
                work.run("clear_import_segment", table_id=self.table_id)
            yield work, lock

    def _set_properties(self, work: BulkWork, properties: dict[str, Any]) -> None:
        work.run("set_properties", table_id=self.table_id, properties=dump_values(properties))

    def _numbers(self, work: BulkWork, count: int) -> range:
        """Return ids for files; SQLite, which has one writer, takes them in the transaction."""
        if self.database.dialect.has_row_locks:
            return self.file_ids.take(count)
        end = work.rows("take_ids", name="file_id", amount=count)[0][0]
        return range(end - count, end)


@dataclass(slots=True)
class _SegmentLoad:
    """What is known of a segment while its windows come, in one transaction or in several."""

    load: BulkLoad
    segment: Segment
    _fold: SegmentFold = field(default_factory=SegmentFold)
    _windows: list[VersionWindow] = field(default_factory=list)

    def take(self, files: FileLoad, window: VersionWindow) -> None:
        """Write the files of the next older window; the oldest one ends files from before, too."""
        placed = self._fold.take(window)
        if window.first == self.segment.first:
            files.end_older(self._fold.older())
        files.insert(placed.live, placed.removed)
        self._windows.append(window.without_files())

    def end(self, files: FileLoad, notes: dict[str, Any]) -> None:
        """Write the versions and all that is not files, and move the table on."""
        files.insert_partitions()
        windows = ascending(self._windows)
        files.close_columns([change for window in windows for change in window.changes])
        segment = self.segment
        VersionLoad(files.work, files.lock, segment.first, segment.last).insert(windows, notes)
        files.work.run("clear_import_segment", table_id=files.lock.table_id)
        crash_point("before-import-segment")
