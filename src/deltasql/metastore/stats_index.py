"""The statistics index in SQL: its columns, its rows, and how far a range reaches.

Law: a file added at or after a column's since_version, and before its until_version, has exactly
one row for the column, unbounded where its statistics say nothing. If the column is whole, so has
every file that was live at since_version. So a filter may look files up in the index and never
lose one.

Ranges by their reach, so that a B-tree finds those that overlap another range. The reach of a
range is the exponent of the power of two above its width. Ranges of one reach that overlap [a, b]
begin between a - 2^reach and b: one short piece of an index on (reach, low). Real columns have a
handful of reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deltasql.database.port import BulkTransaction, DbTransaction
from deltasql.errors import BadArgumentError, SchemaError
from deltasql.protocol.actions import Metadata
from deltasql.protocol.properties import STATS_INDEX_PROPERTY, read
from deltasql.protocol.schema.columns import Leaf, find_column, leaves, mapping_mode
from deltasql.protocol.schema.types import parse_schema
from deltasql.protocol.stats.parse import Bounds, FileStats, IndexKind, index_reader
from deltasql.protocol.values import FLOATS, INTEGER_BITS, TIMESTAMPS

# A double's exponent lies between; the schema's default is UNBOUNDED, which is never wrong.
POINT, UNBOUNDED = -2000, 2000

# A filter over more reaches than this looks at all ranges; SQLite joins at most 500 queries.
MAX_REACHES = 64

# Wider numbers become infinite: the width of every other range is finite.
WIDEST = 1e150
_NUMBERS = {*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "date"}
_NUM_COLUMNS = ("stats_key", "reach", "low", "high", "file_id")
_TEXT_COLUMNS = ("stats_key", "low", "high", "file_id")

# The beginning of a column that is still being filled: no version is so high.
NEVER = 2**62


def reach_of(low: float, high: float) -> int:
    """Return the reach of a range: the width is less than 2 to its power."""
    width = high - low
    if width <= 0:  # who overlaps [a, b] begins at a or behind it, also a range that is reversed
        return POINT
    return UNBOUNDED if math.isinf(width) else math.frexp(width)[1]


def reaches_of(
    lows: npt.NDArray[np.float64], highs: npt.NDArray[np.float64]
) -> npt.NDArray[np.int16]:
    """Return the reaches of many ranges; the same as `reach_of`."""
    width = highs - lows
    exponents = np.frexp(np.where(np.isfinite(width), width, 0.0))[1]
    open_ended = np.where(width > 0, UNBOUNDED, POINT)
    found: Any = np.where((width > 0) & np.isfinite(width), exponents, open_ended)
    return found.astype(np.int16)  # type: ignore[no-any-return]


def least_low(reach: int, low: float) -> float:
    """Return where a range of this reach begins at the earliest that ends at `low` or behind it."""
    if reach == POINT:
        return low
    if reach == UNBOUNDED or math.isinf(low):
        return -math.inf
    return math.nextafter(low - math.ldexp(1.0, reach), -math.inf)


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """A column whose statistics are indexed over a span of versions."""

    stats_key: int
    name: str
    type: str
    kind: IndexKind
    since_version: int
    until_version: int | None
    is_whole: bool = False

    @property
    def is_filling(self) -> bool:
        """Tell whether its rows are still on their way; nobody looks at them yet."""
        return self.since_version == NEVER

    def has_all_files(self, first_version: int) -> bool:
        """Tell whether every file of a version it covers has its row."""
        return self.is_whole or self.since_version <= first_version

    def covers(self, version: int) -> bool:
        """Tell whether the index may be used for a snapshot of this version."""
        return self.since_version <= version and (
            self.until_version is None or version < self.until_version
        )


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows for the two index tables, column by column."""

    num: dict[str, list[float | int]]
    text: dict[str, list[str | int | None]]


def load_columns(tx: DbTransaction | BulkTransaction, table_id: str) -> list[StatsColumn]:
    """Return all columns that are or were indexed."""
    return read_columns(tx.fetch_all("stats_columns", table_id=table_id))


def read_columns(rows: Iterable[tuple[Any, ...]]) -> list[StatsColumn]:
    """Return rows of dl_stats_columns as values."""
    return [StatsColumn(*told, is_whole=bool(whole)) for *told, whole in rows]  # type: ignore[misc]


def wanted_columns(metadata: Metadata) -> list[Leaf]:
    """Return the plain columns to index: the named ones, or the first so many.

    Raises:
        BadArgumentError: the property names a column that is not there or cannot be indexed.
    """
    plain = _plain_columns(metadata)
    wish = _wish(metadata)
    by_name = {leaf.path[0]: leaf for leaf in plain}
    for name in wish if isinstance(wish, list) else ():
        if name not in by_name:
            mode = mapping_mode(metadata.configuration)
            find_column(parse_schema(metadata.schema_string), (name,), mode)
            raise BadArgumentError(f"{STATS_INDEX_PROPERTY}: {name} cannot be indexed.")
    return _chosen(plain, wish)


def usable_columns(metadata: Metadata) -> list[Leaf]:
    """Return the columns that can be indexed of those that somebody else's metadata asks for."""
    try:
        plain = _plain_columns(metadata)
    except SchemaError:
        return []
    return _chosen(plain, _wish(metadata))


def _plain_columns(metadata: Metadata) -> list[Leaf]:
    schema = parse_schema(metadata.schema_string)
    partitions = set(metadata.partition_columns)
    return [
        leaf
        for leaf in leaves(schema, mapping_mode(metadata.configuration))
        if len(leaf.path) == 1 and leaf.path[0] not in partitions and index_kind(leaf)
    ]


def _wish(metadata: Metadata) -> int | list[str]:
    wish = read(metadata.configuration, STATS_INDEX_PROPERTY).strip()
    if wish.lstrip("-").isdecimal():
        return int(wish)
    return [name.strip() for name in wish.split(",") if name.strip()]


def _chosen(plain: list[Leaf], wish: int | list[str]) -> list[Leaf]:
    if isinstance(wish, int):
        return plain if wish < 0 else plain[:wish]
    by_name = {leaf.path[0]: leaf for leaf in plain}
    return [by_name[name] for name in wish if name in by_name]


def index_kind(leaf: Leaf) -> IndexKind | None:
    """Return how a column's bounds are indexed, or None if they cannot be."""
    name = leaf.type.name
    if name == "string":
        return "text"
    return "num" if name in _NUMBERS or name.startswith("decimal") else None


def plan_columns(
    existing: Sequence[StatsColumn], leaves_wanted: Sequence[Leaf]
) -> tuple[list[StatsColumn], list[Leaf]]:
    """Return (columns to close, columns to open) when these are wanted from now on."""
    wanted = {(leaf.physical[0], leaf.type.name): leaf for leaf in leaves_wanted}
    current = [column for column in existing if column.until_version is None]
    keep = {(column.name, column.type) for column in current}
    close = [column for column in current if (column.name, column.type) not in wanted]
    return close, [leaf for key, leaf in wanted.items() if key not in keep]


def index_rows(
    stats: Sequence[FileStats | None],
    file_ids: Sequence[int],
    columns: Iterable[tuple[StatsColumn, Leaf]],
) -> IndexRows:
    """Return one row per file and column, from the statistics of the files."""
    num: dict[str, list[float | int]] = {name: [] for name in _NUM_COLUMNS}
    text: dict[str, list[str | int | None]] = {name: [] for name in _TEXT_COLUMNS}
    for column, leaf in columns:
        found = _bounds(stats, column, leaf)
        if column.kind == "num":
            ranges = [number_range(low, high) for low, high in found]
            num["reach"] += [reach_of(*each) for each in ranges]
            num["low"] += [low for low, _ in ranges]
            num["high"] += [high for _, high in ranges]
            num["stats_key"] += [column.stats_key] * len(stats)
            num["file_id"] += file_ids
        else:
            text["low"] += [str(low or "") for low, _ in found]
            text["high"] += [high for _, high in found]  # type: ignore[misc]
            text["stats_key"] += [column.stats_key] * len(stats)
            text["file_id"] += file_ids
    return IndexRows(num, text)


def _bounds(stats: Sequence[FileStats | None], column: StatsColumn, leaf: Leaf) -> list[Bounds]:
    if index_kind(leaf) != column.kind:
        return [(None, None)] * len(stats)
    read = index_reader(leaf)
    return [read(each) for each in stats]


def _floor(value: float | str | None) -> float:
    if not isinstance(value, int | float) or math.isnan(value) or value < -WIDEST:
        return -math.inf
    return min(float(value), WIDEST)


def _ceiling(value: float | str | None) -> float:
    if not isinstance(value, int | float) or math.isnan(value) or value > WIDEST:
        return math.inf
    return max(float(value), -WIDEST)


def number_range(low: float | str | None, high: float | str | None) -> tuple[float, float]:
    """Return the range of a file or a filter as the index has it; never narrower than it was."""
    return _floor(low), _ceiling(high)
