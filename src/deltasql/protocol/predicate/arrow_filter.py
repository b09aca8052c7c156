"""A filter as an Arrow expression that keeps exactly the rows for which it is true."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
)
from deltasql.protocol.schema.arrow import to_arrow_type
from deltasql.protocol.values import FLOATS, is_nan

_FALSE = pc.scalar(pa.scalar(False))


def to_arrow(predicate: Predicate) -> pc.Expression:
    """Return the expression over logical column names; rows where it is not true fall away."""
    return _expression(predicate, negated=False)


def _expression(predicate: Predicate, *, negated: bool) -> Any:
    match predicate:
        case Constant(value=value):
            return pc.scalar(pa.scalar(value, pa.bool_()))
        case Not(part=part):
            return ~_expression(part, negated=not negated)
        case And(parts=parts):
            return reduce(and_, (_expression(part, negated=negated) for part in parts))
        case Or(parts=parts):
            return reduce(or_, (_expression(part, negated=negated) for part in parts))
        case Comparison():
            return _comparison(predicate)
    return _about_columns(predicate, negated=negated)


def _about_columns(part: ColumnComparison | InList | Like | IsNull, *, negated: bool) -> Any:
    if isinstance(part, ColumnComparison):
        is_float = part.left.type.name in FLOATS
        left, right = pc.field(*part.left.path), pc.field(*part.right.path)
        return _between_columns(part.operator, left, right, is_float=is_float)
    field = pc.field(*part.column.path)
    match part:
        case IsNull():
            return field.is_null()
        case Like(pattern=pattern):
            return pc.match_like(field, pattern)
        case InList(values=values, has_null=has_null):
            return _in_list(_is_any(part.column, values), field, has_null, negated)


def _in_list(found: Any, field: Any, has_null: bool, negated: bool) -> Any:
    """A miss is unknown for nulls: under a NOT that must not become true, so it counts as a hit."""
    if not negated:
        return found
    return pc.scalar(pa.scalar(True)) if has_null else found | field.is_null()


def _is_any(column: Column, values: tuple[Any, ...]) -> Any:
    if column.type.name not in FLOATS:
        return pc.field(*column.path).isin(pa.array(list(values), to_arrow_type(column.type)))
    # Arrow's isin takes 0.0 and -0.0 for two values; a comparison does not.
    return reduce(or_, (_comparison(Comparison("=", column, value)) for value in values), _FALSE)


def _comparison(part: Comparison) -> Any:
    field = _wide(part.column)
    if is_nan(part.value):
        return _compare_with_nan(part.operator, field)
    value = pc.scalar(pa.scalar(part.value, _wide_type(part.column)))
    if part.operator == "<=>":
        return field.is_valid() & (field == value)
    compared = _compare(part.operator, field, value)
    is_above = part.operator in {">", ">="} and part.column.type.name in FLOATS
    return compared | field.is_nan() if is_above else compared


def _compare_with_nan(operator: Operator, field: Any) -> Any:
    """NaN equals itself and is above all numbers; of a null nothing is known."""
    is_nan_here = field.is_nan()
    match operator:
        case "<=>":
            return field.is_valid() & is_nan_here
        case "=" | ">=":
            return is_nan_here
        case "!=" | "<":
            return ~is_nan_here
        case "<=":
            return is_nan_here | ~is_nan_here
    return is_nan_here & ~is_nan_here


def _between_columns(operator: Operator, left: Any, right: Any, *, is_float: bool) -> Any:
    compare = _compare_floats if is_float else _compare
    if operator != "<=>":
        return compare(operator, left, right)
    are_equal = left.is_valid() & right.is_valid() & compare("=", left, right)
    return are_equal | (left.is_null() & right.is_null())


def _compare(operator: Operator, left: Any, right: Any) -> Any:
    match operator:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return left >= right


def _compare_floats(operator: Operator, left: Any, right: Any) -> Any:
    """Compare by the order in which NaN is the greatest; unknown where either side is null."""
    left_nan, right_nan = left.is_nan(), right.is_nan()
    match operator:
        case "=":
            return (left == right) | (left_nan & right_nan)
        case "<":
            return (left < right) | (~left_nan & right_nan)
        case ">":
            return (left > right) | (left_nan & ~right_nan)
        case "!=":
            return ~_compare_floats("=", left, right)
        case "<=":
            return ~_compare_floats(">", left, right)
    return ~_compare_floats("<", left, right)


def _wide(column: Column) -> Any:
    """A 32-bit float is compared as a double: the literal must not be rounded to it."""
    field = pc.field(*column.path)
    return field.cast(pa.float64()) if column.type.name == "float" else field


def _wide_type(column: Column) -> pa.DataType:
    return pa.float64() if column.type.name == "float" else to_arrow_type(column.type)
