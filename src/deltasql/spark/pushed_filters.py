"""Pure: the filters that Spark pushes into a source, as a predicate by which SQL skips files.

Spark applies all of them again, so what cannot be said here is left out. Spark takes NaN for equal
to itself and greater than any number, which statistics need not know of: what a NaN would satisfy
is not skipped by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource

from deltasql.data.scan import ScanSpec
from deltasql.errors import BadPredicateError, SchemaError
from deltasql.protocol.columns import find_column
from deltasql.protocol.predicate import And, Column, IsNull, Like, Not, Predicate
from deltasql.protocol.predicate_ast import Operator
from deltasql.protocol.predicate_literals import Raw, RawKind, compare, in_list
from deltasql.protocol.values import FLOATS
from deltasql.spark.filter_meaning import compares_otherwise

_OPERATORS: dict[type[datasource.Filter], Operator] = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "<=>",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
}
_MET_BY_NAN = frozenset({">", ">="})
# A truth is a number to Python, and a time is a date: they come first.
_LITERALS: tuple[tuple[Any, RawKind, Callable[[Any], str]], ...] = (
    (bool, "boolean", str),
    ((int, float, Decimal), "number", str),
    (str, "text", str),
    (datetime, "timestamp", datetime.isoformat),
    (date, "date", date.isoformat),
)


def pushed_predicate(filters: Iterable[datasource.Filter], spec: ScanSpec) -> Predicate | None:
    """Return what the filters say together, as far as it can be said; None if nothing can."""
    found = [part for each in filters if (part := _part(each, spec)) is not None]
    return And(tuple(found)) if found else None


def _part(given: datasource.Filter, spec: ScanSpec) -> Predicate | None:
    try:
        return _read(given, spec)
    except (BadPredicateError, SchemaError):  # no value of the column's type, or no column
        return None


def _read(given: Any, spec: ScanSpec) -> Predicate | None:
    if isinstance(given, datasource.Not):
        inner = _negated(given.child, spec)
        return None if inner is None else Not(inner)
    column = _column(given.attribute, spec)
    match given:
        case datasource.IsNull():
            return IsNull(column)
        case datasource.IsNotNull():
            return Not(IsNull(column))
        case datasource.In():
            return _in_list(column, given.value)
        case datasource.StringStartsWith() if column.type.name == "string":
            return Like(column, f"{_escaped(given.value)}%")
    return _compared(column, given)


def _column(path: tuple[str, ...], spec: ScanSpec) -> Column:
    leaf = find_column(spec.schema, path, spec.mode)
    if compares_otherwise(spec.schema, leaf.path):
        raise BadPredicateError(f"Spark has its own way with the texts of {'.'.join(path)}.")
    return Column.of(leaf, spec.zone)


def _compared(column: Column, given: Any) -> Predicate | None:
    operator = _OPERATORS.get(type(given))
    if operator is None or (operator in _MET_BY_NAN and column.type.name in FLOATS):
        return None
    raw = _raw(given.value)
    return None if raw is None else compare(operator, column, raw)


def _negated(given: Any, spec: ScanSpec) -> Predicate | None:
    """Return what is to be negated; of numbers that may be NaN only whether they are there."""
    column = _column(given.attribute, spec)
    is_presence = isinstance(given, datasource.IsNull | datasource.IsNotNull)
    return None if column.type.name in FLOATS and not is_presence else _read(given, spec)


def _in_list(column: Column, values: Sequence[object]) -> Predicate | None:
    raws = [_raw(value) for value in values]
    known = [raw for raw in raws if raw is not None]
    return in_list(column, known) if len(known) == len(raws) else None


def _raw(value: object) -> Raw | None:
    """Return a value of Spark as a literal; None if there is no literal for it."""
    if value is None:
        return Raw("null", "NULL")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    for kind, word, printed in _LITERALS:
        if isinstance(value, kind):
            return Raw(word, printed(value))
    return None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
