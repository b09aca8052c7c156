"""Can a file hold rows that a filter keeps? Answered by statistics here, by ranges in SQL.

Every part of a filter is answered with the *set* of answers its rows may give (true, false,
unknown). Partition values make the set exact; statistics make it smaller, never too small.

Ranges of single columns that a filter implies, for an SQL index over files' bounds. A file whose
bounds do not meet a range holds no matching row. Only what follows for every row is given:
conjuncts at the top, on plain columns. Bounds are inclusive and rounded outwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, TypeAlias

from deltasql.protocol.predicate.ast import (
    And,
    Column,
    ColumnComparison,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    columns_of,
)
from deltasql.protocol.stats.parse import (
    FileStats,
    IndexBound,
    IndexKind,
    column_bounds,
    null_count,
    number_bound,
    text_bound,
)
from deltasql.protocol.values import FLOATS, INTEGER_BITS, Value, is_nan, parse_partition_value

_LAST = 0x10FFFF

# Types of whole numbers: what is above one of them is at least the next one.
_WHOLE = frozenset({*INTEGER_BITS, "date"})
_SURROGATES = range(0xD800, 0xE000)

Answers: TypeAlias = frozenset[bool | None]

_TRUE: Answers = frozenset({True})
_FALSE: Answers = frozenset({False})
_UNKNOWN: Answers = frozenset({None})

# Which relations of a value to another make a comparison true: less, equal, greater.
_HOLDS: dict[Operator, frozenset[int]] = {
    "=": frozenset({0}),
    "<=>": frozenset({0}),
    "!=": frozenset({-1, 1}),
    "<": frozenset({-1}),
    "<=": frozenset({-1, 0}),
    ">": frozenset({1}),
    ">=": frozenset({0, 1}),
}

# So many columns are tried with NaN and without; more are kept in doubt.
_MAX_NAN_COLUMNS = 4


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


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a column in one file; None is unbounded.

    Bounds are of numbers: a column that `may_be_nan` may also lie above the upper one.
    """

    low: Any = None
    high: Any = None
    may_be_null: bool = True
    may_be_value: bool = True
    may_be_nan: bool = False

    @property
    def top(self) -> Any:
        """The upper bound with NaN counted in."""
        return _NAN if self.may_be_nan and self.high is not None else self.high


class _Nan:
    """Stands for NaN as a bound: equal to itself, greater than everything else."""

    def __lt__(self, _: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, _: object) -> bool:
        return True


_NAN = _Nan()

Known: TypeAlias = Callable[[Column], Facts]


def may_match(
    predicate: Predicate,
    stats: FileStats | None,
    partition_values: Mapping[str, str | None] | None = None,
) -> bool:
    """Tell whether a file may hold a row that the filter keeps; false means surely none.

    Partition values are keyed by physical names; the null and the empty text are both null.
    """
    if stats is not None and stats.num_records == 0:
        return False
    return can_be_true(predicate, lambda column: _facts(column, stats, partition_values or {}))


def surely_holds(
    predicate: Predicate, stats: FileStats | None, partition_values: Mapping[str, str | None]
) -> bool:
    """Tell whether the filter is true of every row of a file, by what is known of it."""
    if stats is not None and stats.num_records == 0:
        return True
    return answers(predicate, lambda column: _facts(column, stats, partition_values)) == _TRUE


def can_be_true(predicate: Predicate, known: Known) -> bool:
    """Tell whether a row with these facts may make the filter true.

    Columns that may hold NaN are tried with it alone and without it: `x BETWEEN 1 AND 2` is false
    of NaN, although `x >= 1` is true.
    """
    if True not in answers(predicate, known):  # asked for every file: most end here
        return False
    floats = [column for column in columns_of(predicate) if column.type.name in FLOATS]
    doubtful = [one for one in dict.fromkeys(floats) if known(one).may_be_nan][:_MAX_NAN_COLUMNS]
    choices = product((False, True), repeat=len(doubtful))
    split = (dict(zip(doubtful, choice, strict=True)) for choice in choices)
    return not doubtful or any(
        True in answers(predicate, partial(_split_facts, known, is_nan_at)) for is_nan_at in split
    )


def _split_facts(known: Known, is_nan_at: Mapping[Column, bool], column: Column) -> Facts:
    facts, is_nan_here = known(column), is_nan_at.get(column)
    if is_nan_here is None:
        return facts
    if is_nan_here:
        return replace(facts, low=_NAN, high=_NAN, may_be_nan=False)
    return replace(facts, may_be_nan=False)


def answers(predicate: Predicate, known: Known) -> Answers:
    """Return all answers that rows of a file with these facts may give."""
    match predicate:
        case Constant(value=value):
            return frozenset({value})
        case Not(part=part):
            return frozenset(None if one is None else not one for one in answers(part, known))
        case And(parts=parts):
            return _join(_both, True, (answers(part, known) for part in parts))
        case Or(parts=parts):
            return _join(_either, False, (answers(part, known) for part in parts))
        case ColumnComparison():
            return _compare_columns(predicate, known)
    return _about_one_column(predicate, known(predicate.column))


def _join(
    combine: Callable[[bool | None, bool | None], bool | None],
    start: bool,
    parts: Iterable[Answers],
) -> Answers:
    found: Answers = frozenset({start})
    for part in parts:
        found = frozenset(combine(left, right) for left in found for right in part)
    return found


def _both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _about_one_column(part: Comparison | InList | Like | IsNull, facts: Facts) -> Answers:
    if isinstance(part, IsNull):
        found = _TRUE if facts.may_be_null else frozenset()
        return found | (_FALSE if facts.may_be_value else frozenset())
    of_values: Answers = frozenset()
    if facts.may_be_value:
        of_values = _value_answers(part, facts)
    if not facts.may_be_null:
        return of_values
    is_null_safe = isinstance(part, Comparison) and part.operator == "<=>"
    return of_values | (_FALSE if is_null_safe else _UNKNOWN)


def _value_answers(part: Comparison | InList | Like, facts: Facts) -> Answers:
    match part:
        case Comparison(operator=operator, value=value):
            bound = _orderable(value)
            return _compare(operator, _relations(facts, bound, bound))
        case InList(values=values, has_null=has_null):
            miss = _UNKNOWN if has_null else _FALSE
            bounds = [_orderable(value) for value in values]
            is_sure = _is_one_value(facts) and facts.low in bounds
            is_possible = any(0 in _relations(facts, bound, bound) for bound in bounds)
            return (_TRUE if is_possible else frozenset()) | (frozenset() if is_sure else miss)
        case Like():
            return _like(part, facts)


def _is_one_value(facts: Facts) -> bool:
    return facts.low is not None and facts.low == facts.high and not facts.may_be_nan


def _relations(facts: Facts, low: Any, high: Any) -> frozenset[int]:
    """Return how the column's values may stand to a value between `low` and `high`."""
    found, top = set(), facts.top if facts.may_be_nan else facts.high
    if facts.low is None or high is None or facts.low < high:
        found.add(-1)
    if top is None or low is None or top > low:
        found.add(1)
    reaches_up = top is None or low is None or top >= low
    reaches_down = facts.low is None or high is None or facts.low <= high
    if reaches_up and reaches_down:
        found.add(0)
    return frozenset(found)


def _compare(operator: Operator, relations: frozenset[int]) -> Answers:
    holds = _HOLDS[operator]
    return frozenset(relation in holds for relation in relations)


def _compare_columns(part: ColumnComparison, known: Known) -> Answers:
    left, right = known(part.left), known(part.right)
    found: Answers = frozenset()
    if left.may_be_value and right.may_be_value:
        found = _compare(part.operator, _relations(left, right.low, right.top))
    if part.operator != "<=>":
        return found | (_UNKNOWN if left.may_be_null or right.may_be_null else frozenset())
    if left.may_be_null and right.may_be_null:
        found |= _TRUE
    is_mixed = (left.may_be_null and right.may_be_value) or (
        left.may_be_value and right.may_be_null
    )
    return found | (_FALSE if is_mixed else frozenset())


def _like(part: Like, facts: Facts) -> Answers:
    if _is_one_value(facts):
        return frozenset({like_pattern(part.pattern).fullmatch(facts.low) is not None})
    prefix = part.prefix
    is_above = facts.low is not None and facts.low > prefix and not facts.low.startswith(prefix)
    is_below = facts.high is not None and facts.high < prefix
    return _FALSE if is_above or is_below else _TRUE | _FALSE


@lru_cache(maxsize=256)
def like_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that matches the whole of what LIKE matches."""
    found: list[str] = []
    pieces = iter(pattern)
    for piece in pieces:
        if piece == "\\":
            found.append(re.escape(next(pieces, "\\")))
        else:
            found.append({"%": ".*", "_": "."}.get(piece) or re.escape(piece))
    return re.compile("".join(found), re.DOTALL)


def _facts(column: Column, stats: FileStats | None, partition: Mapping[str, str | None]) -> Facts:
    if len(column.physical) == 1 and column.physical[0] in partition:
        return partition_facts(column, partition[column.physical[0]])
    is_float = column.type.name in FLOATS
    if stats is None:
        return Facts(may_be_nan=is_float)
    low, high = column_bounds(stats, column)
    nulls, rows = null_count(stats, column), stats.num_records
    # A null struct is not counted by every writer as a null of the fields in it.
    may_be_null = nulls != 0 or len(column.physical) > 1
    may_be_value = nulls is None or rows is None or nulls != rows
    return Facts(low, high, may_be_null, may_be_value, is_float)


def partition_facts(column: Column, text: str | None) -> Facts:
    """Return what a partition value tells of its column: everything, unless it is malformed."""
    if not text:
        return Facts(may_be_value=False)
    value = parse_partition_value(text, column.type, column.zone)
    return Facts(may_be_nan=column.type.name in FLOATS) if value is None else _exactly(value)


def _exactly(value: Value | None) -> Facts:
    if value is None:
        return Facts(may_be_value=False)
    bound = _orderable(value)
    return Facts(bound, bound, may_be_null=False)


def _orderable(value: Value) -> Any:
    return _NAN if value != value else value  # noqa: PLR0124 (only NaN is not itself)
