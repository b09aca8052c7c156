"""The text of `add.stats` in Delta Spark's order and spelling, from what is known of a new file.

Which columns are told about follows the table's properties; strings are cut as Spark cuts them,
timestamps to milliseconds (readers add one to the maximum).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any

from deltasql.errors import ConfigError
from deltasql.protocol.schema.columns import Leaf, MappingMode, leaves
from deltasql.protocol.schema.types import Decimal, StructType
from deltasql.protocol.values import (
    FLOATS,
    INTEGER_BITS,
    TIMESTAMPS,
    Value,
    print_date,
    print_timestamp,
    shortest_float,
)

INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
PREFIX_LENGTH = "delta.dataSkippingStringPrefixLength"
_DEFAULT_INDEXED = 32
_DEFAULT_PREFIX = 32
_HAS_BOUNDS = frozenset({*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "string", "date"})
_DEL, _LAST_CHARACTER = "\x7f", "\U0010ffff"
_BEYOND_BMP = 0xFFFF


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a column in a new file; None where nothing is."""

    low: Value | None = None
    high: Value | None = None
    nulls: int | None = None


def has_bounds(column: Leaf) -> bool:
    """Tell whether Delta keeps a minimum and a maximum for columns of this type."""
    return isinstance(column.type, Decimal) or column.type.name in _HAS_BOUNDS


def stats_columns(
    schema: StructType,
    partition_columns: Iterable[str],
    configuration: Mapping[str, str],
    mode: MappingMode = "none",
) -> list[Leaf]:
    """Return the leaf columns that statistics tell about, in schema order.

    Raises:
        ConfigError: the table's property is not a number.
    """
    partitions = set(partition_columns)
    found = [leaf for leaf in leaves(schema, mode) if leaf.path[0] not in partitions]
    chosen = configuration.get(STATS_COLUMNS)
    if chosen is not None:
        wanted = {_split(name) for name in _split(chosen, ",")}
        return [leaf for leaf in found if _is_below(leaf.path, wanted)]
    count = _whole(configuration, INDEXED_COLUMNS, _DEFAULT_INDEXED)
    return found if count < 0 else found[:count]


def build_stats(
    num_records: int,
    columns: Iterable[tuple[Leaf, Summary]],
    configuration: Mapping[str, str],
    *,
    tight_bounds: bool,
) -> str:
    """Return the text of a file's statistics; `tight_bounds` where vectors may delete rows."""
    prefix = _whole(configuration, PREFIX_LENGTH, _DEFAULT_PREFIX)
    tree: dict[str, Any] = {"numRecords": num_records}
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column, summary in columns:
        low = _spell(summary.low, column, prefix, upper=False)
        high = _spell(summary.high, column, prefix, upper=True)
        if low is not None:
            _put(lows, column.physical, low)
        if high is not None:
            _put(highs, column.physical, high)
        if summary.nulls is not None:
            _put(nulls, column.physical, summary.nulls)
    tree |= {"minValues": lows, "maxValues": highs, "nullCount": nulls}
    if tight_bounds:
        tree["tightBounds"] = True
    return _dump(tree)


def cut_low(text: str, limit: int) -> str:
    """Return the first `limit` UTF-16 units, one more rather than half a character."""
    return text[: _prefix(text, limit)]


def cut_high(text: str, limit: int) -> str | None:
    """Return a short text that is not below any text with the same beginning; None if none is.

    The first character cut off is replaced by one that sorts after it.
    """
    if _units(text) <= limit:
        return text
    end = _prefix(text, limit)
    while _units(text[:end]) <= 2 * limit:
        if end >= len(text):
            return text
        if text[end] != _LAST_CHARACTER:
            return text[:end] + (_DEL if text[end] < _DEL else _LAST_CHARACTER)
        end += 1
    return None


def _units(text: str) -> int:
    return sum(2 if ord(character) > _BEYOND_BMP else 1 for character in text)


def _prefix(text: str, limit: int) -> int:
    units = 0
    for position, character in enumerate(text):
        if units >= limit:
            return position
        units += 2 if ord(character) > _BEYOND_BMP else 1
    return len(text)


def _spell(value: Value | None, column: Leaf, prefix: int, *, upper: bool) -> Any:
    name = column.type.name
    if value is None or not has_bounds(column):
        return None
    if isinstance(value, str):
        return cut_high(value, prefix) if upper else cut_low(value, prefix)
    if isinstance(value, float):
        return _spell_float(value, name)
    return _spell_time(int(value), name) if name in {"date", *TIMESTAMPS} else value


def _spell_time(value: int, name: str) -> str | None:
    try:
        if name == "date":
            return print_date(value)
        return print_timestamp(value, digits=3) + ("Z" if name == "timestamp" else "")
    except (ValueError, OverflowError):
        return None  # a year that has no spelling: no bound is a true bound


def _spell_float(value: float, name: str) -> Any:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return shortest_float(value) if name == "float" else value


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _dump(value: Any) -> str:
    """Return compact JSON; decimals keep all their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quote(key)}:{_dump(one)}" for key, one in value.items()) + "}"
    return format(value, "f") if isinstance(value, Number) else _quote(value)


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _whole(configuration: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(configuration.get(key, default))
    except ValueError as error:
        raise ConfigError(f"The table property {key} is not a whole number.") from error


def _split(text: str, separator: str = ".") -> tuple[str, ...]:
    """Return the parts between separators that do not stand inside backquotes."""
    parts, quoted = [""], False
    for character in text:
        if character == "`":
            quoted = not quoted
        if character == separator and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    if separator == ",":
        return tuple(part.strip() for part in parts if part.strip())
    return tuple(part.strip().strip("`").lower() for part in parts)


def _is_below(path: tuple[str, ...], wanted: set[tuple[str, ...]]) -> bool:
    folded = tuple(name.lower() for name in path)
    return any(folded[: len(one)] == one for one in wanted)
