"""Statistics of a file (`add.stats`): parsed with tolerance, read as bounds that can be trusted.

A bound is used only if it surely holds; whatever is doubtful (missing, unparsable, of another type,
contradicting itself) is no bound. Timestamps may have been cut to milliseconds, decimals may have
passed through a double, long strings were cut: all bounds here are widened accordingly.

Bounds for an SQL index, read from the statistics of very many files. Says what
`stats.index_bounds` says. What most writers write takes a short way; whatever looks different in
any way takes the long one.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal as Number
from typing import Any, Literal, TypeAlias

import msgspec

from deltasql.protocol.schema.columns import Leaf
from deltasql.protocol.schema.types import Decimal
from deltasql.protocol.values import (
    FLOATS,
    INTEGER_BITS,
    TIMESTAMPS,
    Value,
    parse_date,
    parse_timestamp,
    round_to_float,
)

IndexKind: TypeAlias = Literal["num", "text"]
IndexBound: TypeAlias = float | str | None

_DECODER = msgspec.json.Decoder(float_hook=Number)
_MILLISECOND = 1000
_EXACT_DIGITS = 15  # every decimal of so many digits survives a double
_NOT_A_DOUBLE = 18  # no double is printed with so many digits

# Some writers print decimals by way of doubles: of the digits, and of a power of ten that is itself
# a product of up to 38 factors. Each step may be wrong by 2^-53 of the value.
_DOUBLE_ERROR = 2.0**-46
_INDEX_LENGTH = 64  # characters of a text that an index keeps
_CUT_AT = 32  # where writers begin to cut strings
_LAST_CHARACTER = "\U0010ffff"

Bounds: TypeAlias = tuple[IndexBound, IndexBound]
_Short: TypeAlias = Callable[[Any, Any], Bounds | None]

_UNBOUNDED: Bounds = (None, None)
EXACT = 2**53  # every integer up to here is a double
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
MILLISECOND = 1000
SHORT_TEXT = 32  # shorter ones are neither cut by writers nor by the index
_ISO_LENGTH = len("2000-01-01T00:00:00.000Z")


@dataclass(frozen=True, slots=True)
class FileStats:
    """What a file's writer tells about its rows, by physical column names."""

    num_records: int | None = None
    min_values: Mapping[str, Any] = field(default_factory=dict)
    max_values: Mapping[str, Any] = field(default_factory=dict)
    null_count: Mapping[str, Any] = field(default_factory=dict)
    tight_bounds: bool = True


def parse_stats(text: str | None) -> FileStats | None:
    """Return the statistics in the text, or None if there are none that can be read."""
    if not text:
        return None
    try:
        tree = _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(tree, dict):
        return None
    return FileStats(
        _count(tree.get("numRecords")),
        _tree(tree.get("minValues")),
        _tree(tree.get("maxValues")),
        _tree(tree.get("nullCount")),
        tree.get("tightBounds") is not False,
    )


def null_count(stats: FileStats, column: Leaf) -> int | None:
    """Return how many rows have no value in the column, if that is told."""
    return _count(_at(stats.null_count, column))


def column_bounds(stats: FileStats | None, column: Leaf) -> tuple[Value | None, Value | None]:
    """Return values that no value of the column lies below or above; None where unbounded.

    NaN is outside of this order: a column of floats may hold it whatever the bounds are.
    """
    read = _reader(column)
    if stats is None or read is None:
        return None, None
    low = read(_at(stats.min_values, column), column, False)
    high = read(_at(stats.max_values, column), column, True)
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    return low, high


def index_bounds(
    stats: FileStats | None, column: Leaf
) -> tuple[IndexKind, IndexBound, IndexBound] | None:
    """Return the bounds as an SQL index keeps them, or None where the file is unbounded.

    Numbers are doubles rounded outwards, texts are short and compare bytewise as UTF-8.
    """
    low, high = column_bounds(stats, column)
    if column.type.name == "boolean" or (low is None and high is None):
        return None
    if column.type.name == "string":
        bottom, top = text_bound(low, upper=False), text_bound(high, upper=True)
        return None if bottom is None and top is None else ("text", bottom, top)
    below, above = number_bound(low, upper=False), number_bound(high, upper=True)
    return None if below is None and above is None else ("num", below, above)


def number_bound(value: Any, *, upper: bool) -> float | None:
    """Return the nearest double that is not inside of the value; None if there is none."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if math.isfinite(number) and (number < value if upper else number > value):
        number = math.nextafter(number, math.inf if upper else -math.inf)
    return number if math.isfinite(number) else None


def text_bound(value: Any, *, upper: bool) -> str | None:
    """Return a text that every SQL index can hold and that does not lie inside of the value."""
    if not isinstance(value, str):
        return None
    # PostgreSQL has no NUL in texts; U+0001 sorts after it and before everything else.
    head, nul, _ = value.partition("\0")
    short = head[:_INDEX_LENGTH]
    try:
        short.encode()
    except UnicodeEncodeError:
        return None
    if not upper or short == value:
        return short
    if len(head) > _INDEX_LENGTH:
        return None if head[_INDEX_LENGTH] == _LAST_CHARACTER else short + _LAST_CHARACTER
    return short + "\x01" if nul else short


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _tree(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _at(tree: Mapping[str, Any], column: Leaf) -> Any:
    found: Any = tree
    for name in column.physical:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _reader(column: Leaf) -> Callable[[Any, Leaf, bool], Value | None] | None:
    return _decimal if isinstance(column.type, Decimal) else _READERS.get(column.type.name)


def _integer(raw: Any, _column: Leaf, _upper: bool) -> Value | None:
    return raw if type(raw) is int else None


def _decimal(raw: Any, column: Leaf, upper: bool) -> Value | None:
    if type(raw) is not int and not isinstance(raw, Number):
        return None
    number = Number(raw)
    digits = len(number.normalize().as_tuple().digits) if number else 1
    precision = column.type.precision if isinstance(column.type, Decimal) else 0
    if precision <= _EXACT_DIGITS or digits >= _NOT_A_DOUBLE:
        return number
    try:
        near = float(number)
    except OverflowError:
        return None
    outwards = math.inf if upper else -math.inf
    further = math.nextafter(near + math.copysign(near * _DOUBLE_ERROR, outwards), outwards)
    return Number(further) if math.isfinite(further) else None


def _float(raw: Any, column: Leaf, _upper: bool) -> Value | None:
    if isinstance(raw, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf}.get(raw)
    if type(raw) is not int and not isinstance(raw, Number):
        return None
    try:
        number = float(raw)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    return round_to_float(number) if column.type.name == "float" else number


def _date(raw: Any, _column: Leaf, _upper: bool) -> Value | None:
    return parse_date(raw) if isinstance(raw, str) else None


def _timestamp(raw: Any, column: Leaf, upper: bool) -> Value | None:
    parsed = parse_timestamp(raw) if isinstance(raw, str) else None
    # Without a zone the text of a `timestamp` means a place that we do not know.
    if parsed is None or (column.type.name == "timestamp" and not parsed[1]):
        return None
    return parsed[0] + _MILLISECOND if upper else parsed[0]


def _text(raw: Any, _column: Leaf, upper: bool) -> Value | None:
    if not isinstance(raw, str):
        return None
    # Writers of old ended a cut maximum with U+FFFD, which does not sort after all characters.
    if upper and raw.endswith("\ufffd") and len(raw) > _CUT_AT:
        return raw[:-1] + _LAST_CHARACTER
    return raw


def _boolean(raw: Any, _column: Leaf, _upper: bool) -> Value | None:
    return raw if isinstance(raw, bool) else None


_READERS: dict[str, Callable[[Any, Leaf, bool], Value | None]] = {
    "boolean": _boolean,
    "date": _date,
    "string": _text,
    **dict.fromkeys(INTEGER_BITS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(TIMESTAMPS, _timestamp),
}


def index_reader(leaf: Leaf) -> Callable[[FileStats | None], Bounds]:
    """Return what reads the bounds of one column; None stands for an open end."""
    short = _SHORT.get(leaf.type.name)
    name = leaf.physical[0] if len(leaf.physical) == 1 else None

    def read(stats: FileStats | None) -> Bounds:
        if stats is None:
            return _UNBOUNDED
        if short is not None and name is not None:
            found = short(stats.min_values.get(name), stats.max_values.get(name))
            if found is not None:
                return found
        told = index_bounds(stats, leaf)
        return _UNBOUNDED if told is None else told[1:]

    return read


def _integers(low: Any, high: Any) -> Bounds | None:
    if type(low) is int and type(high) is int and -EXACT <= low <= high <= EXACT:
        return float(low), float(high)
    return None


def _doubles(low: Any, high: Any) -> Bounds | None:
    if type(low) is not Number or type(high) is not Number:
        return None
    bottom, top = float(low), float(high)
    return (bottom, top) if -math.inf < bottom <= top < math.inf else None


def _texts(low: Any, high: Any) -> Bounds | None:
    if type(low) is not str or type(high) is not str:
        return None
    plain = low.isascii() and high.isascii() and "\0" not in low and "\0" not in high
    is_short = len(low) <= SHORT_TEXT and len(high) <= SHORT_TEXT
    return (low, high) if plain and is_short and low <= high else None


def _timestamps(low: Any, high: Any) -> Bounds | None:
    bottom, top = _microseconds(low), _microseconds(high)
    if bottom is None or top is None or bottom > top:
        return None
    above = top + MILLISECOND
    # further from 1970 not every microsecond is a double: there bounds are rounded outwards
    return (float(bottom), float(above)) if bottom >= -EXACT and above <= EXACT else None


def _microseconds(raw: Any) -> int | None:
    """Read a time as Spark and most others spell it: 2000-01-01T00:00:00.000Z."""
    if type(raw) is not str or len(raw) != _ISO_LENGTH or raw[4] + raw[7] + raw[10] != "--T":
        return None
    if raw[19] != "." or raw[23] != "Z":
        return None
    try:
        return (dt.datetime.fromisoformat(raw) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


_SHORT: dict[str, _Short] = {
    "double": _doubles,
    "string": _texts,
    **dict.fromkeys(INTEGER_BITS, _integers),
    **dict.fromkeys(TIMESTAMPS, _timestamps),
}
