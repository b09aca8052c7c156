"""Ranges of single columns that a filter implies, for an SQL index over files' bounds.

A file whose bounds do not meet a range holds no matching row. Only what follows for every row is
given: conjuncts at the top, on plain columns. Bounds are inclusive and rounded outwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from deltasql.protocol.predicate_ast import (
    And,
    Column,
    Comparison,
    InList,
    Like,
    Not,
    Predicate,
)
from deltasql.protocol.stats import IndexBound, IndexKind, number_bound, text_bound
from deltasql.protocol.values import FLOATS, INTEGER_BITS, is_nan

_LAST = 0x10FFFF
# Types of whole numbers: what is above one of them is at least the next one.
_WHOLE = frozenset({*INTEGER_BITS, "date"})
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Matching rows have `column` between `low` and `high`; None is unbounded."""

    column: str
    kind: IndexKind
    low: IndexBound
    high: IndexBound


def index_ranges(predicate: Predicate) -> list[IndexRange]:
    """Return the ranges that rows must lie in, one per physical column, in order of appearance."""
    found: dict[str, IndexRange] = {}
    parts = list(_conjuncts(predicate))
    without_nan = {column for part in parts if (column := _excludes_nan(part)) is not None}
    for part in parts:
        one = _range(part, without_nan)
        if one is not None:
            known = found.get(one.column)
            found[one.column] = one if known is None else _narrow(known, one)
    return list(found.values())


def parts_without_range(predicate: Predicate, columns: Collection[str]) -> list[Predicate]:
    """Return the conjuncts that are more than a comparison of one of these columns with a value.

    For the others, whether a file may hold a matching row is what its range tells.
    """
    parts = list(_conjuncts(predicate))
    without_nan = {column for part in parts if (column := _excludes_nan(part)) is not None}
    return [
        part
        for part in parts
        if not isinstance(part, Comparison)
        or part.column.physical[0] not in columns
        or _range(part, without_nan) is None
    ]


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _excludes_nan(part: Predicate) -> Column | None:
    """Return the column of floats that is a number in every row that a part keeps."""
    match part:
        case Comparison(operator="!=" | "<", column=column, value=value) if is_nan(value):
            return column
        case Comparison(operator="=" | "<=>" | "<" | "<=", column=column, value=value):
            return None if is_nan(value) else column
        case InList(column=column, values=values):
            return None if any(map(is_nan, values)) else column
        case Not(part=Comparison(operator="=" | "<=>", column=column, value=value)):
            return column if is_nan(value) else None
    return None


def _range(part: Predicate, without_nan: Collection[Column]) -> IndexRange | None:
    """A lower bound of floats holds only where NaN is excluded: no upper bound tells of it."""
    match part:
        case Comparison(operator="=" | "<=>", column=column, value=value):
            return _between(column, value, value)
        case Comparison(operator="<" | "<=" | ">" | ">=", column=column):
            is_sure = column.type.name not in FLOATS or column in without_nan
            return _one_sided(part) if is_sure or part.operator in {"<", "<="} else None
        case InList(column=column, values=values) if values and not any(map(is_nan, values)):
            return _between(column, min(values), max(values))
        case Like(column=column):
            return _between(column, part.prefix, _after(part.prefix)) if part.prefix else None
    return None


def _one_sided(part: Comparison) -> IndexRange | None:
    value: Any = part.value
    if part.column.type.name in _WHOLE:
        value += {"<": -1, ">": 1}.get(part.operator, 0)
    if part.operator in {"<", "<="}:
        return _between(part.column, None, value)
    return _between(part.column, value, None)


def _between(column: Column, low: Any, high: Any) -> IndexRange | None:
    if len(column.physical) != 1 or column.type.name == "boolean":
        return None
    kind: IndexKind = "text" if column.type.name == "string" else "num"
    bound = text_bound if kind == "text" else number_bound
    bottom, top = bound(low, upper=False), bound(high, upper=True)
    if bottom is None and top is None:
        return None
    return IndexRange(column.physical[0], kind, bottom, top)


def _narrow(one: IndexRange, other: IndexRange) -> IndexRange:
    lows: list[Any] = [bound for bound in (one.low, other.low) if bound is not None]
    highs: list[Any] = [bound for bound in (one.high, other.high) if bound is not None]
    return IndexRange(one.column, one.kind, max(lows, default=None), min(highs, default=None))


def _after(prefix: str) -> str | None:
    """Return a text that sorts after everything that begins with the prefix."""
    stem = prefix.rstrip(chr(_LAST))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
