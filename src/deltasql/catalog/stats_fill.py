"""Index the statistics of files that are there already: those of a table that came in bulk.

A column is opened with a beginning that no version reaches, filled in pieces, and counts from the
moment when all of its rows are there. Whoever comes after a crash drops what was begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pyarrow as pa

from deltasql.catalog.ahead import read_ahead
from deltasql.catalog.database import BulkWork, Database, Work
from deltasql.catalog.definitions import load_definition, open_columns, pair_leaves
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.stats_bulk import BulkRows, bulk_index_rows, in_order
from deltasql.catalog.stats_index import (
    NEVER,
    StatsColumn,
    load_columns,
    plan_columns,
    read_columns,
    usable_columns,
)
from deltasql.crash import crash_point
from deltasql.protocol.actions import Metadata
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.columns import Leaf

Pairs = tuple[tuple[StatsColumn, Leaf], ...]

_FILES_EACH = 100_000
# Rows of the index that are sorted together, and those that a transaction writes.
_ROWS_SORTED = 2_000_000
_ROWS_AT_ONCE = 300_000
_TRIES = 3
_LIVE = pa.schema([("file_id", pa.int64()), ("stats", pa.string())])
# Only while nobody commits by rules that were read before the index was there.
_STILL = (TableState.IMPORTING, TableState.READ_ONLY)


@dataclass(slots=True)
class StatsFill:
    """Indexes the live files of tables in one catalog."""

    database: Database
    stop: Event = field(default_factory=Event)

    def run(self, table_id: str) -> int:
        """Index a table that has no index yet; return how many files were indexed.

        A table that gets new versions meanwhile is begun with again; if that goes on it is left
        without an index, which is slower and as right.
        """
        for _ in range(_TRIES):
            version, pairs = self._begin(table_id)
            if not pairs:
                return 0
            count = self._fill(table_id, version, pairs)
            if self.stop.is_set():
                return 0
            crash_point("after-stats-filled")
            if self._end(table_id, version, pairs):
                return count
        return 0

    def _begin(self, table_id: str) -> tuple[int, Pairs]:
        with self.database.write() as work:
            row = table_row(work.rows("lock_table", table_id=table_id)[0])
            columns = load_columns(work, table_id)
            for column in columns:
                if column.is_filling:
                    _drop(work, column)
            has_index = any(c.until_version is None and not c.is_filling for c in columns)
            if has_index or not _is_still(work, row):
                return row.current_version, ()
            metadata = load_definition(work, table_id, row.current_version).metadata
            opened = open_columns(work, table_id, NEVER, usable_columns(metadata))
            crash_point("before-stats-begun")
            return row.current_version, pair_leaves(opened, metadata)

    def _fill(self, table_id: str, version: int, pairs: Pairs) -> int:
        count = 0
        text = self.database.queries.text("live_stats")
        place = {"table_id": table_id, "version": version}
        read = (
            (files.num_rows, bulk_index_rows(files["stats"], files["file_id"], pairs))
            for files in _portions(self.database.arrow_batches(text, place, _LIVE))
            if not self.stop.is_set()
        )
        with closing(read_ahead(_together(read))) as ahead:
            for files, rows in ahead:
                for part in rows.parts(_ROWS_AT_ONCE):
                    with self.database.bulk() as work:
                        if self.stop.is_set() or not _are_filling(work, table_id, pairs):
                            return count
                        load_index(work, part)
                        crash_point("before-stats-part")
                count += files
        return count

    def _end(self, table_id: str, version: int, pairs: Pairs) -> bool:
        """Let the columns count, unless versions came or somebody else has begun anew."""
        with self.database.write() as work:
            row = table_row(work.rows("lock_table", table_id=table_id)[0])
            is_whole = row.current_version == version and _is_still(work, row)
            is_whole = is_whole and _are_filling(work, table_id, pairs)
            for column, _ in pairs:
                if is_whole:
                    work.run("end_filling", stats_key=column.stats_key, version=version)
                else:
                    _drop(work, column)
            crash_point("before-stats-ended")
        return is_whole


def _is_still(work: Work, row: TableRow) -> bool:
    """Tell whether nobody brings files that the index would miss."""
    progress = work.rows("import_progress", table_id=row.table_id)
    is_loading = bool(progress) and progress[0][0] is not None
    return row.state in _STILL and not is_loading


def _are_filling(work: BulkWork | Work, table_id: str, pairs: Pairs) -> bool:
    columns = read_columns(work.rows("stats_columns", table_id=table_id))
    filling = {column.stats_key for column in columns if column.is_filling}
    return filling >= {column.stats_key for column, _ in pairs}


def _drop(work: Work, column: StatsColumn) -> None:
    for name in ("drop_column_num", "drop_column_text", "drop_column"):
        work.run(name, stats_key=column.stats_key)


def _portions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows in portions whose statistics fit into memory."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _FILES_EACH:
            yield pa.Table.from_batches(waiting, _LIVE)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, _LIVE)


def _together(found: Iterator[tuple[int, BulkRows]]) -> Iterator[tuple[int, BulkRows]]:
    """Put portions together: in the order of the whole index rows cost least to insert."""
    waiting: list[BulkRows] = []
    files = 0
    for count, rows in found:
        waiting.append(rows)
        files += count
        if sum(map(len, waiting)) >= _ROWS_SORTED:
            yield files, in_order(waiting)
            waiting, files = [], 0
    if waiting:
        yield files, in_order(waiting)


def load_index(work: BulkWork, rows: BulkRows) -> None:
    """Write rows of the index in bulk."""
    for name, table in (("dl_stats_num", rows.num), ("dl_stats_text", rows.text)):
        if table.num_rows:
            work.insert(name, table)


def open_pairs(work: BulkWork, table_id: str, version: int) -> Pairs:
    """Return the columns that a table has indexed at a version; none before its first one."""
    columns = [
        column
        for column in read_columns(work.rows("stats_columns", table_id=table_id))
        if column.until_version is None and not column.is_filling
    ]
    if not columns:
        return ()
    found, action = work.rows("metadata_at", table_id=table_id, version=version)[0]
    metadata = decode_commit(str(action).encode(), version=int(found), lenient=True)[0]
    assert isinstance(metadata, Metadata)  # noqa: S101 (the query gives nothing else)
    return pair_leaves(columns, metadata)


def close_columns(
    work: BulkWork, columns: Sequence[StatsColumn], changes: Sequence[tuple[int, Any]]
) -> None:
    """End the index of columns that new metadata no longer wants.

    A column that it brings is indexed from the cut-over on.
    """
    left = list(columns)
    for version, change in changes:
        if isinstance(change, Metadata):
            close, _ = plan_columns(left, usable_columns(change))
            for column in close:
                work.run("close_stats_column", stats_key=column.stats_key, version=version)
                left.remove(column)
