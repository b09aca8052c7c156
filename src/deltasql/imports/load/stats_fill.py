"""The statistics index of very many files, filled after they were loaded.

Says what `stats_index.index_rows` says. Whatever does not look as most writers write it, a row or
a whole column, is read there one by one.

Index the statistics of files that are there already: those of a table that came in bulk. A column
is opened with a beginning that no version reaches, filled in pieces, and counts from the moment
when all of its rows are there. Whoever comes after a crash drops what was begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from deltasql.crash import crash_point
from deltasql.data.read_ahead import read_ahead
from deltasql.database.port import BulkTransaction, Database, DbTransaction
from deltasql.metastore.snapshot.definition import load_definition, open_columns, pair_leaves
from deltasql.metastore.stats_index import (
    NEVER,
    WIDEST,
    StatsColumn,
    index_kind,
    index_rows,
    load_columns,
    plan_columns,
    reaches_of,
    read_columns,
    usable_columns,
)
from deltasql.metastore.table_row import TableRow, TableState, table_row
from deltasql.protocol.actions import Metadata
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.schema.columns import Leaf
from deltasql.protocol.stats.parse import EXACT, MILLISECOND, SHORT_TEXT, parse_stats
from deltasql.protocol.values import INTEGER_BITS, TIMESTAMPS

NUM_SCHEMA = pa.schema(
    [
        ("stats_key", pa.int32()),
        ("reach", pa.int16()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("file_id", pa.int64()),
    ]
)
TEXT_SCHEMA = pa.schema(
    [
        ("stats_key", pa.int32()),
        ("low", pa.string()),
        ("high", pa.string()),
        ("file_id", pa.int64()),
    ]
)
_LONGEST = 64 * 1024
_MOST_BYTES = 2**30
_INFINITY = float("inf")

# Years of four digits and no hour 24: what Python and Arrow read alike.
_TIME = r"^[1-9]\d{3}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$"
_DATE = r"^[1-9]\d{3}-\d\d-\d\d$"

# Low, high, and which rows are as they should be; the others are read one by one.
_Read: TypeAlias = tuple[pa.Array, pa.Array, pa.Array]
_Reader: TypeAlias = Callable[[pa.Array, pa.Array], _Read]

Pairs = tuple[tuple[StatsColumn, Leaf], ...]

_FILES_EACH = 100_000

# Rows of the index that are sorted together, and those that a transaction writes.
_ROWS_SORTED = 2_000_000
_ROWS_AT_ONCE = 300_000
_TRIES = 3
_LIVE = pa.schema([("file_id", pa.int64()), ("stats", pa.string())])

# Only while nobody commits by rules that were read before the index was there.
_STILL = (TableState.IMPORTING, TableState.READ_ONLY)


@dataclass(frozen=True, slots=True)
class BulkRows:
    """Rows for the two index tables, as Arrow."""

    num: pa.Table
    text: pa.Table

    def __len__(self) -> int:
        """The number of rows."""
        count: int = self.num.num_rows + self.text.num_rows
        return count

    def parts(self, rows: int) -> Iterator[BulkRows]:
        """Yield the rows in parts of at most so many of each table."""
        for start in range(0, max(self.num.num_rows, self.text.num_rows), rows):
            yield BulkRows(self.num.slice(start, rows), self.text.slice(start, rows))


def in_order(rows: Sequence[BulkRows]) -> BulkRows:
    """Return the rows of several parts as one, in the order of the index."""
    num = pa.concat_tables([part.num for part in rows])
    text = pa.concat_tables([part.text for part in rows])
    order = np.lexsort([num[name].to_numpy() for name in ("low", "reach", "stats_key")])
    by_low = [("stats_key", "ascending"), ("low", "ascending")]
    return BulkRows(num.take(pa.array(order)), text.sort_by(by_low))


def bulk_index_rows(
    texts: pa.ChunkedArray, file_ids: pa.ChunkedArray, pairs: Iterable[tuple[StatsColumn, Leaf]]
) -> BulkRows:
    """Return one row per file and column, from the statistics of the files."""
    found = {NUM_SCHEMA: [NUM_SCHEMA.empty_table()], TEXT_SCHEMA: [TEXT_SCHEMA.empty_table()]}
    stats, numbers = _one(texts), _one(file_ids)
    wanted = list(pairs)
    told = _parse(stats, [leaf for column, leaf in wanted if _is_usual(column, leaf)])
    for column, leaf in wanted:
        schema = NUM_SCHEMA if column.kind == "num" else TEXT_SCHEMA
        low, high = _bounds(told, stats, numbers, column, leaf)
        key = pa.repeat(pa.scalar(column.stats_key, pa.int32()), len(numbers))
        by_reach = [_reaches(low, high)] if column.kind == "num" else []
        columns = [key, *by_reach, low, high, numbers]
        found[schema].append(pa.Table.from_arrays(columns, schema=schema))
    return BulkRows(*map(pa.concat_tables, found.values()))


def _reaches(low: pa.Array, high: pa.Array) -> pa.Array:
    ends = (side.to_numpy(zero_copy_only=False) for side in (low, high))
    return pa.array(reaches_of(*ends), pa.int16())


def _is_usual(column: StatsColumn, leaf: Leaf) -> bool:
    """Tell whether Arrow can read a column's bounds."""
    is_plain = leaf.type.name in _KINDS and len(leaf.physical) == 1
    return is_plain and index_kind(leaf) == column.kind


def _one(values: pa.ChunkedArray) -> pa.Array:
    whole = values.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _parse(stats: pa.Array, leaves: list[Leaf]) -> _Told | None:
    """Let Arrow read the bounds of these columns; None where it would not read what we do."""
    plain = pc.and_(pc.starts_with(stats, "{"), pc.ends_with(stats, "}"))
    plain = pc.and_(plain, pc.invert(pc.match_substring(stats, "\n")))
    plain = pc.fill_null(pc.and_(plain, pc.less(pc.binary_length(stats), _LONGEST)), False)
    lines = pc.if_else(plain, stats, "{}")
    if not leaves or not len(lines) or lines.nbytes > _MOST_BYTES:
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    data = pc.binary_join(whole, "\n")[0].as_buffer()
    bounds = pa.struct([(leaf.physical[0], _KINDS[leaf.type.name][0]) for leaf in leaves])
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(block_size=data.size + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([("minValues", bounds), ("maxValues", bounds)]),
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowException:
        return None
    # a line begins and ends with a brace, so none gives less than one row: so many, each gave one
    if table.num_rows != len(lines):
        return None
    odd = pc.and_(pc.invert(plain), pc.is_valid(stats))
    return _Told(_one(table["minValues"]), _one(table["maxValues"]), odd)


@dataclass(frozen=True, slots=True)
class _Told:
    """The bounds as they stand in the texts; `odd` are texts that Arrow was not given."""

    lows: pa.StructArray
    highs: pa.StructArray
    odd: pa.Array


def _bounds(
    told: _Told | None, stats: pa.Array, numbers: pa.Array, column: StatsColumn, leaf: Leaf
) -> tuple[pa.Array, pa.Array]:
    if told is None or not _is_usual(column, leaf):
        return _slowly(stats, numbers, column, leaf)
    low, high = (pc.struct_field(side, leaf.physical[0]) for side in (told.lows, told.highs))
    try:
        read = _KINDS[leaf.type.name][1](low, high)
    except pa.ArrowException:  # a day that is in no calendar
        return _slowly(stats, numbers, column, leaf)
    nothing = pc.and_(pc.is_null(low), pc.is_null(high))
    is_right = pc.or_(pc.fill_null(read[2], False), nothing)
    left = pc.or_(pc.invert(is_right), told.odd)
    found = (_open_numbers if column.kind == "num" else _open_texts)(*read[:2], nothing)
    if not pc.any(left).as_py():
        return found
    others = _slowly(stats.filter(left), numbers.filter(left), column, leaf)
    bottom, top = map(pc.replace_with_mask, found, (left, left), others)
    return bottom, top


def _open_numbers(low: pa.Array, high: pa.Array, nothing: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Let the index begin and end nowhere where nothing is told, or what is too far out."""
    low = pc.if_else(nothing, -_INFINITY, pc.min_element_wise(low, WIDEST))
    high = pc.if_else(nothing, _INFINITY, pc.max_element_wise(high, -WIDEST))
    return (
        pc.if_else(pc.less(low, -WIDEST), -_INFINITY, low),
        pc.if_else(pc.greater(high, WIDEST), _INFINITY, high),
    )


def _open_texts(low: pa.Array, high: pa.Array, nothing: pa.Array) -> tuple[pa.Array, pa.Array]:
    return pc.if_else(nothing, "", low), high


def _slowly(
    stats: pa.Array, numbers: pa.Array, column: StatsColumn, leaf: Leaf
) -> tuple[pa.Array, pa.Array]:
    parsed = [parse_stats(text) for text in stats.to_pylist()]
    rows = index_rows(parsed, numbers.to_pylist(), [(column, leaf)])
    found: dict[str, list[Any]] = rows.num if column.kind == "num" else rows.text
    kind = pa.float64() if column.kind == "num" else pa.string()
    return pa.array(found["low"], kind), pa.array(found["high"], kind)


def _integers(low: pa.Array, high: pa.Array) -> _Read:
    right = pc.and_(pc.greater_equal(low, -EXACT), pc.less_equal(high, EXACT))
    right = pc.and_(right, pc.less_equal(low, high))
    return low.cast(pa.float64(), safe=False), high.cast(pa.float64(), safe=False), right


def _doubles(low: pa.Array, high: pa.Array) -> _Read:
    right = pc.and_(pc.is_finite(low), pc.is_finite(high))
    return low, high, pc.and_(right, pc.less_equal(low, high))


def _texts(low: pa.Array, high: pa.Array) -> _Read:
    right = pc.less_equal(low, high)
    for side in (low, high):
        short = pc.less_equal(pc.binary_length(side), SHORT_TEXT)
        plain = pc.and_(pc.string_is_ascii(side), pc.invert(pc.match_substring(side, "\0")))
        right = pc.and_(right, pc.and_(short, plain))
    return low, high, right


def _timestamps(low: pa.Array, high: pa.Array) -> _Read:
    kind = pa.timestamp("us", "UTC")
    bottom, top, right = _matching(low, high, _TIME, kind, pa.int64())
    low_end, high_end, is_exact = _integers(bottom, pc.add(top, MILLISECOND))
    return low_end, high_end, pc.and_(right, is_exact)


def _dates(low: pa.Array, high: pa.Array) -> _Read:
    bottom, top, right = _matching(low, high, _DATE, pa.date32(), pa.int32())
    return bottom.cast(pa.float64()), top.cast(pa.float64()), right


def _matching(
    low: pa.Array, high: pa.Array, pattern: str, kind: pa.DataType, number: pa.DataType
) -> _Read:
    """Read what is spelled like this; the rest is nothing here."""
    sides = []
    for side in (low, high):
        spelled = pc.match_substring_regex(side, pattern)
        sides.append(pc.if_else(spelled, side, pa.scalar(None, pa.string())).cast(kind))
    bottom, top = (side.cast(number) for side in sides)
    return bottom, top, pc.less_equal(bottom, top)


_KINDS: dict[str, tuple[pa.DataType, _Reader]] = {
    "double": (pa.float64(), _doubles),
    "string": (pa.string(), _texts),
    "date": (pa.string(), _dates),
    **dict.fromkeys(INTEGER_BITS, (pa.int64(), _integers)),
    **dict.fromkeys(TIMESTAMPS, (pa.string(), _timestamps)),
}


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
        with self.database.write() as tx:
            row = table_row(tx.fetch_all("lock_table", table_id=table_id)[0])
            columns = load_columns(tx, table_id)
            for column in columns:
                if column.is_filling:
                    _drop(tx, column)
            has_index = any(c.until_version is None and not c.is_filling for c in columns)
            if has_index or not _is_still(tx, row):
                return row.current_version, ()
            metadata = load_definition(tx, table_id, row.current_version).metadata
            opened = open_columns(tx, table_id, NEVER, usable_columns(metadata))
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
                    with self.database.bulk() as tx:
                        if self.stop.is_set() or not _are_filling(tx, table_id, pairs):
                            return count
                        load_index(tx, part)
                        crash_point("before-stats-part")
                count += files
        return count

    def _end(self, table_id: str, version: int, pairs: Pairs) -> bool:
        """Let the columns count, unless versions came or somebody else has begun anew."""
        with self.database.write() as tx:
            row = table_row(tx.fetch_all("lock_table", table_id=table_id)[0])
            is_whole = row.current_version == version and _is_still(tx, row)
            is_whole = is_whole and _are_filling(tx, table_id, pairs)
            for column, _ in pairs:
                if is_whole:
                    tx.execute("end_filling", stats_key=column.stats_key, version=version)
                else:
                    _drop(tx, column)
            crash_point("before-stats-ended")
        return is_whole


def _is_still(tx: DbTransaction, row: TableRow) -> bool:
    """Tell whether nobody brings files that the index would miss."""
    progress = tx.fetch_all("import_progress", table_id=row.table_id)
    is_loading = bool(progress) and progress[0][0] is not None
    return row.state in _STILL and not is_loading


def _are_filling(tx: BulkTransaction | DbTransaction, table_id: str, pairs: Pairs) -> bool:
    columns = read_columns(tx.fetch_all("stats_columns", table_id=table_id))
    filling = {column.stats_key for column in columns if column.is_filling}
    return filling >= {column.stats_key for column, _ in pairs}


def _drop(tx: DbTransaction, column: StatsColumn) -> None:
    for name in ("drop_column_num", "drop_column_text", "drop_column"):
        tx.execute(name, stats_key=column.stats_key)


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


def load_index(tx: BulkTransaction, rows: BulkRows) -> None:
    """Write rows of the index in bulk."""
    for name, table in (("dl_stats_num", rows.num), ("dl_stats_text", rows.text)):
        if table.num_rows:
            tx.insert(name, table)


def open_pairs(tx: BulkTransaction, table_id: str, version: int) -> Pairs:
    """Return the columns that a table has indexed at a version; none before its first one."""
    columns = [
        column
        for column in read_columns(tx.fetch_all("stats_columns", table_id=table_id))
        if column.until_version is None and not column.is_filling
    ]
    if not columns:
        return ()
    found, action = tx.fetch_all("metadata_at", table_id=table_id, version=version)[0]
    metadata = decode_commit(str(action).encode(), version=int(found), lenient=True)[0]
    assert isinstance(metadata, Metadata)  # noqa: S101 (the query gives nothing else)
    return pair_leaves(columns, metadata)


def close_columns(
    tx: BulkTransaction, columns: Sequence[StatsColumn], changes: Sequence[tuple[int, Any]]
) -> None:
    """End the index of columns that new metadata no longer wants.

    A column that it brings is indexed from the cut-over on.
    """
    left = list(columns)
    for version, change in changes:
        if isinstance(change, Metadata):
            close, _ = plan_columns(left, usable_columns(change))
            for column in close:
                tx.execute("close_stats_column", stats_key=column.stats_key, version=version)
                left.remove(column)
