"""Data files written as Parquet, with the statistics of their footer.

What a Parquet footer tells about a file's columns: bounds and null counts, per row group. Columns
are found by their place in the schema, never by splitting a dotted path.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.protocol.schema.arrow import to_arrow_schema
from deltasql.protocol.schema.columns import Leaf, MappingMode, leaves, loosen_columns
from deltasql.protocol.schema.types import ArrayType, DataType, Decimal, MapType, StructType
from deltasql.protocol.stats.build import Summary, build_stats, has_bounds, stats_columns
from deltasql.protocol.values import FLOATS, INTEGER_BITS, TIMESTAMPS, Value
from deltasql.storage.port import ObjectStore

# These stand in the footer as the very integers that we compare.
_RAW = frozenset({*INTEGER_BITS, *TIMESTAMPS, *FLOATS, "date"})

_SUFFIXES = {"none": ".parquet", "uncompressed": ".parquet"}


def file_leaves(schema: StructType, mode: MappingMode) -> Iterator[tuple[Leaf, range]]:
    """Yield the leaves of a file of this very schema with the Parquet columns they take up."""
    at = 0
    for leaf in leaves(schema, mode):
        width = _width(leaf.type)
        yield leaf, range(at, at + width)
        at += width


def summarize(metadata: Any, leaf: Leaf, columns: range) -> Summary:
    """Return what the footer tells about a leaf over all row groups; doubt leaves things out."""
    parts = [
        summarize_group(metadata.row_group(group), leaf, columns)
        for group in range(metadata.num_row_groups)
    ]
    counts = [part.nulls for part in parts]
    nulls = None if None in counts else sum(count for count in counts if count is not None)
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    filled = [part for part, count in zip(parts, rows, strict=True) if part.nulls != count]
    lows: list[Any] = [part.low for part in filled]
    highs: list[Any] = [part.high for part in filled]
    if not filled or None in lows or None in highs:
        return Summary(nulls=nulls)
    return Summary(min(lows), max(highs), nulls)


def summarize_group(group: Any, leaf: Leaf, columns: range) -> Summary:
    """Return what the footer tells about a leaf in one row group."""
    if isinstance(leaf.type, ArrayType | MapType) or len(columns) != 1:
        return Summary(nulls=_no_nulls(group, columns))
    statistics = group.column(columns[0]).statistics
    if statistics is None:
        return Summary()
    nulls = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max or not has_bounds(leaf):
        return Summary(nulls=nulls)
    low, high = _bounds(statistics, leaf.type)
    return Summary(low, high, nulls)


def _bounds(statistics: Any, kind: DataType) -> tuple[Value | None, Value | None]:
    names = ("min_raw", "max_raw") if kind.name in _RAW else ("min", "max")
    try:
        low, high = getattr(statistics, names[0]), getattr(statistics, names[1])
    except (pa.ArrowException, ValueError, OverflowError, UnicodeDecodeError):
        return None, None
    if kind.name in FLOATS and (math.isnan(low) or math.isnan(high)):
        return None, None  # Java's writers put NaN there, and it compares with nothing
    return low, high


def _no_nulls(group: Any, columns: range) -> int | None:
    """An array or map has no nulls if nothing below it has; otherwise the footer cannot tell."""
    for column in columns:
        statistics = group.column(column).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return None
    return 0


def _width(kind: DataType) -> int:
    match kind:
        case StructType(fields=fields):
            return sum(_width(field.type) for field in fields)
        case ArrayType(element=element):
            return _width(element)
        case MapType(key=key, value=value):
            return _width(key) + _width(value)
        case Decimal():
            return 1
    return 2 if kind.name == "variant" else 1


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What all files of one write have in common."""

    schema: pa.Schema
    columns: tuple[tuple[Leaf, range], ...]
    configuration: Mapping[str, str]
    tight_bounds: bool
    compression: str

    @property
    def suffix(self) -> str:
        """How the names of the files end."""
        return _SUFFIXES.get(self.compression.lower(), f".{self.compression.lower()}.parquet")


def layout_of(
    schema: StructType,
    mode: MappingMode,
    configuration: Mapping[str, str],
    features: frozenset[str],
    compression: str,
) -> FileLayout:
    """Return the layout of files that hold these columns, partition columns left out."""
    wanted = {leaf.path for leaf in stats_columns(schema, (), configuration, mode)}
    columns = tuple(pair for pair in file_leaves(schema, mode) if pair[0].path in wanted)
    return FileLayout(
        to_arrow_schema(loosen_columns(schema), mode, physical=True),
        columns,
        configuration,
        "deletionVectors" in features,
        compression,
    )


def footer_stats(
    footer: Any, layout: FileLayout, has_nan: Container[tuple[str, ...]] = frozenset()
) -> str:
    """Return the statistics of a file of this layout; columns with NaN get no bounds."""
    told = []
    for leaf, columns in layout.columns:
        summary = summarize(footer, leaf, columns)
        if leaf.physical in has_nan:
            summary = Summary(nulls=summary.nulls)
        told.append((leaf, summary))
    return build_stats(
        footer.num_rows, told, layout.configuration, tight_bounds=layout.tight_bounds
    )


class OpenFile:
    """A file being written; rows wait in memory until they make a row group."""

    def __init__(self, key: str, layout: FileLayout, store: ObjectStore) -> None:
        self.key = key
        self.buffered_bytes = 0
        self.rows = 0
        self.size = 0
        self._layout = layout
        self._store = store
        self._rows: list[pa.RecordBatch] = []
        self._stack = ExitStack()
        self._sink: Any = None
        self._writer: Any = None
        self._footers: list[Any] = []
        self._has_nan: set[tuple[str, ...]] = set()

    @property
    def is_started(self) -> bool:
        """Whether the store has seen anything of the file."""
        return self._writer is not None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows under their physical names."""
        self._rows.append(rows)
        self.rows += rows.num_rows
        self.buffered_bytes += rows.nbytes

    def flush(self) -> None:
        """Write the rows that wait as one row group."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._rows, schema=self._rows[0].schema)
        self._rows, self.buffered_bytes = [], 0
        self._note_nan(table)
        if self._writer is None:
            self._begin()
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.size = self._sink.tell()

    def close(self) -> tuple[int, str]:
        """Finish the file, make it appear, and return its size and its statistics."""
        self.flush()
        self._writer.close()
        self.size = self._sink.tell()
        self._stack.close()
        return self.size, footer_stats(self._footers[0], self._layout, self._has_nan)

    def abandon(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the file up; it never appears."""
        self._rows = []
        if self._writer is not None:
            # Arrow's writer finishes its file when it is collected; ours must not see that.
            with suppress(Exception):
                self._writer.close()
            self._writer.is_open = False
        self._stack.__exit__(kind, error, trace)

    def _begin(self) -> None:
        self._sink = self._stack.enter_context(self._store.open_output(self.key))
        self._writer = pq.ParquetWriter(
            self._sink,
            self._layout.schema,
            compression=self._layout.compression,
            version="2.6",
            data_page_version="1.0",
            store_schema=False,
            metadata_collector=self._footers,
        )

    def _note_nan(self, table: pa.Table) -> None:
        """Footers pass NaN over, but Delta orders it above all numbers: no bounds with NaN."""
        for leaf, _ in self._layout.columns:
            if leaf.type.name in FLOATS and leaf.physical not in self._has_nan:
                values: Any = table.column(leaf.physical[0])
                for name in leaf.physical[1:]:
                    values = pc.struct_field(values, [values.type.get_field_index(name)])
                if pc.any(pc.is_nan(values)).as_py():
                    self._has_nan.add(leaf.physical)
