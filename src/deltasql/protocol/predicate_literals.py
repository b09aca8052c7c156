"""Literals of a filter brought into the domain of the column they are compared with.

A comparison that no value of the column's type can decide (id > 5.5, a byte = 300) is turned into
an equal one inside the domain, so that everything behind the parser meets typed values only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import ROUND_FLOOR
from decimal import Decimal as Number
from typing import Literal, TypeAlias

from deltasql.errors import BadPredicateError
from deltasql.protocol.predicate_ast import (
    Column,
    Comparison,
    Constant,
    InList,
    IsNull,
    Operator,
    Predicate,
)
from deltasql.protocol.schema import Decimal
from deltasql.protocol.values import (
    EXACT,
    FLOATS,
    INTEGER_BITS,
    TIMESTAMPS,
    Value,
    integer_range,
    parse_date,
    parse_number,
    parse_special_float,
    parse_timestamp,
)

RawKind: TypeAlias = Literal["number", "text", "boolean", "date", "timestamp", "null"]
COMPARABLE = frozenset({*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "string", "boolean", "date"})


@dataclass(frozen=True, slots=True)
class Raw:
    """A literal as it was written, before it meets a column."""

    kind: RawKind
    text: str


def is_comparable(column: Column) -> bool:
    """Tell whether values of the column can be compared with literals."""
    return isinstance(column.type, Decimal) or column.type.name in COMPARABLE


def compare(operator: Operator, column: Column, raw: Raw) -> Predicate:
    """Return `column operator literal` inside the column's domain.

    Raises:
        BadPredicateError: the literal does not fit the column's type.
    """
    if not is_comparable(column):
        raise BadPredicateError(
            f"The column {_name(column)} is of type {column.type.name}: "
            "it can only be tested with IS NULL."
        )
    if raw.kind == "null":
        return IsNull(column) if operator == "<=>" else Constant(None)
    if isinstance(column.type, Decimal) or column.type.name in INTEGER_BITS:
        return _compare_exact(operator, column, _number(raw, column))
    return Comparison(operator, column, _coerce(raw, column))


def in_list(column: Column, raws: Sequence[Raw]) -> Predicate:
    """Return `column IN (literals)`; literals that no value can equal fall out of the list."""
    found: list[Value] = []
    for raw in raws:
        match compare("=", column, raw):
            case Comparison(operator="=", value=value):
                found.append(value)
    return InList(column, tuple(dict.fromkeys(found)), any(raw.kind == "null" for raw in raws))


def _compare_exact(operator: Operator, column: Column, number: Number) -> Predicate:
    low, high, scale = _domain(column)
    floor = int(EXACT.scaleb(number, scale).to_integral_value(ROUND_FLOOR, context=EXACT))
    if EXACT.scaleb(number, scale) == floor and low <= floor <= high:
        return Comparison(operator, column, _value(floor, column))
    never = Comparison("<", column, _value(low, column))
    always = Comparison(">=", column, _value(low, column))
    if operator == "<=>":
        return Constant(value=False)
    if operator in {"=", "!="}:
        return never if operator == "=" else always
    is_upper = operator in {"<", "<="}
    if floor >= high:
        return always if is_upper else never
    if floor < low:
        return never if is_upper else always
    return Comparison("<=" if is_upper else ">", column, _value(floor, column))


def _domain(column: Column) -> tuple[int, int, int]:
    """Return the least and greatest value in whole units, and the digits behind the point."""
    if isinstance(column.type, Decimal):
        limit = 10**column.type.precision - 1
        return -limit, limit, column.type.scale
    return *integer_range(column.type.name), 0


def _value(units: int, column: Column) -> Value:
    if isinstance(column.type, Decimal):
        return EXACT.scaleb(Number(units), -column.type.scale)
    return units


def _number(raw: Raw, column: Column) -> Number:
    number = parse_number(raw.text) if raw.kind in {"number", "text"} else None
    # Beyond this no type of Delta has values, and exact arithmetic would take for ever.
    if number is None or abs(number.adjusted()) > 350:  # noqa: PLR2004
        raise _misfit(raw, column)
    return number


def _coerce(raw: Raw, column: Column) -> Value:
    name = column.type.name
    found: Value | None = None
    if name in FLOATS:
        found = _float(raw, column)
    elif name == "string" and raw.kind == "text":
        found = raw.text
    elif name == "boolean" and raw.kind in {"boolean", "text"}:
        found = {"true": True, "false": False}.get(raw.text.lower())
    elif name == "date" and raw.kind in {"date", "text"}:
        found = parse_date(raw.text)
    elif name in TIMESTAMPS and raw.kind in {"timestamp", "date", "text"}:
        found = _moment(raw.text, column)
    if found is None or (isinstance(found, str) and not _is_unicode(found)):
        raise _misfit(raw, column)
    return found


def _float(raw: Raw, column: Column) -> float | None:
    special = parse_special_float(raw.text) if raw.kind in {"number", "text"} else None
    if special is not None:
        return special
    number = float(_number(raw, column))
    return number if math.isfinite(number) else None


def _moment(text: str, column: Column) -> int | None:
    is_local = column.type.name == "timestamp_ntz"
    parsed = parse_timestamp(text, UTC if is_local else column.zone)
    return None if parsed is None or (is_local and parsed[1]) else parsed[0]


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _misfit(raw: Raw, column: Column) -> BadPredicateError:
    shown = f"'{raw.text[:60]}'" if raw.kind != "number" else raw.text[:60]
    return BadPredicateError(
        f"{shown} cannot be compared with the column {_name(column)} of type {column.type.name}."
    )


def _name(column: Column) -> str:
    return ".".join(column.path)
