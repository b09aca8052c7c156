"""What a Parquet footer tells about a file's columns: bounds and null counts, per row group.

Columns are found by their place in the schema, never by splitting a dotted path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltasql.protocol.columns import Leaf, MappingMode, leaves
from deltasql.protocol.schema import ArrayType, DataType, Decimal, MapType, StructType
from deltasql.protocol.stats_build import Summary, has_bounds
from deltasql.protocol.values import FLOATS, INTEGER_BITS, TIMESTAMPS, Value

# These stand in the footer as the very integers that we compare.
_RAW = frozenset({*INTEGER_BITS, *TIMESTAMPS, *FLOATS, "date"})


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
