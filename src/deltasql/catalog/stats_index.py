"""The index over file statistics: which columns it covers, and each file's row in it.

Law: a file added at or after a column's since_version, and before its until_version, has exactly
one row for the column, unbounded where its statistics say nothing. So a filter may look files up
in the index and never lose one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deltasql.catalog.database import Work
from deltasql.errors import BadArgumentError
from deltasql.protocol.actions import Add, Metadata
from deltasql.protocol.columns import Leaf, find_column, leaves, mapping_mode
from deltasql.protocol.properties import STATS_INDEX_PROPERTY, read
from deltasql.protocol.schema import parse_schema
from deltasql.protocol.stats import IndexKind, index_bounds, parse_stats
from deltasql.protocol.values import FLOATS, INTEGER_BITS, TIMESTAMPS

# Wider numbers become infinite: PostgreSQL computes areas of boxes and must not overflow.
_WIDEST = 1e150
_NUMBERS = {*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "date"}
_COLUMNS = ("stats_key", "low", "high", "file_id")


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """A column whose statistics are indexed over a span of versions."""

    stats_key: int
    name: str
    type: str
    kind: IndexKind
    since_version: int
    until_version: int | None

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


def load_columns(work: Work, table_id: str) -> list[StatsColumn]:
    """Return all columns that are or were indexed."""
    return read_columns(work.rows("stats_columns", table_id=table_id))


def read_columns(rows: Iterable[tuple[Any, ...]]) -> list[StatsColumn]:
    """Return rows of dl_stats_columns as values."""
    return [StatsColumn(*row) for row in rows]


def wanted_columns(metadata: Metadata) -> list[Leaf]:
    """Return the plain columns to index: the named ones, or the first so many.

    Raises:
        BadArgumentError: the property names a column that is not there or cannot be indexed.
    """
    schema = parse_schema(metadata.schema_string)
    mode = mapping_mode(metadata.configuration)
    partitions = set(metadata.partition_columns)
    plain = [
        leaf
        for leaf in leaves(schema, mode)
        if len(leaf.path) == 1 and leaf.path[0] not in partitions and index_kind(leaf)
    ]
    wish = read(metadata.configuration, STATS_INDEX_PROPERTY).strip()
    if wish.lstrip("-").isdecimal():
        return plain if int(wish) < 0 else plain[: int(wish)]
    names = [name.strip() for name in wish.split(",") if name.strip()]
    by_name = {leaf.path[0]: leaf for leaf in plain}
    for name in names:
        if name not in by_name:
            find_column(schema, (name,), mode)
            raise BadArgumentError(f"{STATS_INDEX_PROPERTY}: {name} cannot be indexed.")
    return [by_name[name] for name in names]


def index_kind(leaf: Leaf) -> IndexKind | None:
    """Return how a column's bounds are indexed, or None if they cannot be."""
    name = leaf.type.name
    if name == "string":
        return "text"
    return "num" if name in _NUMBERS or name.startswith("decimal") else None


def plan_columns(
    existing: Sequence[StatsColumn], metadata: Metadata
) -> tuple[list[StatsColumn], list[Leaf]]:
    """Return (columns to close, columns to open) when a table gets this metadata."""
    wanted = {(leaf.physical[0], leaf.type.name): leaf for leaf in wanted_columns(metadata)}
    current = [column for column in existing if column.until_version is None]
    keep = {(column.name, column.type) for column in current}
    close = [column for column in current if (column.name, column.type) not in wanted]
    return close, [leaf for key, leaf in wanted.items() if key not in keep]


def index_rows(
    adds: Sequence[Add], file_ids: Sequence[int], columns: Iterable[tuple[StatsColumn, Leaf]]
) -> IndexRows:
    """Return one row per file and column."""
    num: dict[str, list[float | int]] = {name: [] for name in _COLUMNS}
    text: dict[str, list[str | int | None]] = {name: [] for name in _COLUMNS}
    pairs = list(columns)
    for add, file_id in zip(adds, file_ids, strict=True):
        stats = parse_stats(add.stats) if pairs else None
        for column, leaf in pairs:
            found = index_bounds(stats, leaf)
            low, high = (found[1], found[2]) if found and found[0] == column.kind else (None, None)
            if column.kind == "num":
                row = (column.stats_key, _floor(low), _ceiling(high), file_id)
                for name, value in zip(num, row, strict=True):
                    num[name].append(value)
            else:
                cells = (column.stats_key, str(low or ""), high, file_id)
                for name, cell in zip(text, cells, strict=True):
                    text[name].append(cell)  # type: ignore[arg-type]
    return IndexRows(num, text)


def _floor(value: float | str | None) -> float:
    if not isinstance(value, int | float) or math.isnan(value) or value < -_WIDEST:
        return -math.inf
    return min(float(value), _WIDEST)


def _ceiling(value: float | str | None) -> float:
    if not isinstance(value, int | float) or math.isnan(value) or value > _WIDEST:
        return math.inf
    return max(float(value), -_WIDEST)


def number_range(low: float | None, high: float | None) -> tuple[float, float]:
    """Return a filter's range in the index's own terms; never narrower than it was."""
    return _floor(low), _ceiling(high)
