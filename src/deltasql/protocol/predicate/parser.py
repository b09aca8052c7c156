"""The text of a filter to a typed predicate, by way of sqlglot's Spark dialect.

What the small language of `predicate_ast` cannot say is refused, naming the part.

Literals of a filter brought into the domain of the column they are compared with. A comparison
that no value of the column's type can decide (id > 5.5, a byte = 300) is turned into an equal one
inside the domain, so that everything behind the parser meets typed values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import ROUND_FLOOR
from decimal import Decimal as Number
from functools import cache, partial
from typing import Any, Literal, TypeAlias

from deltasql.errors import BadPredicateError, SchemaError
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
from deltasql.protocol.schema.columns import MappingMode, find_column
from deltasql.protocol.schema.types import Decimal, StructType, parse_type_name
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
    round_to_float,
    to_scale,
)

RawKind: TypeAlias = Literal["number", "text", "boolean", "date", "timestamp", "null"]
COMPARABLE = frozenset({*INTEGER_BITS, *FLOATS, *TIMESTAMPS, "string", "boolean", "date"})

Node: TypeAlias = Any  # sqlglot's expressions; the library is loaded by the first filter only
MAX_LENGTH = 1_000_000
_OPERATORS: dict[str, Operator] = {
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CASTS: dict[str, RawKind] = {
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
}

# The parts of a node that are read here. Any other that is set changes what the node means: such a
# filter is refused, so that a part that a newer sqlglot adds is never passed over.
_PARTS = frozenset(
    {
        *("this", "expression", "expressions", "low", "high", "negate", "query", "unnest"),
        *("to", "safe", "is_string", "quoted", "table", "db", "catalog"),
    }
)

# How sqlglot shows numbers with a suffix: 5L, 1.5D, 10BD.
_SUFFIXED = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}


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


def parse_predicate(
    text: str, schema: StructType, mode: MappingMode = "none", zone: tzinfo = UTC
) -> Predicate:
    """Return the typed predicate that the text says about columns of the schema.

    Times that name no zone are those of `zone`.

    Raises:
        BadPredicateError: the text is no filter, names no column, or says more than we support.
    """
    if not text.strip() or len(text) > MAX_LENGTH:
        raise BadPredicateError("The filter is empty or longer than a million characters.")
    parse, failure = _parser()
    try:
        return _Reader(schema, mode, zone).read_whole(parse(text))
    except failure as error:
        raise BadPredicateError(f"The filter cannot be understood: {_reason(error)}.") from error
    except RecursionError as error:
        raise BadPredicateError("The filter is nested too deeply.") from error


@dataclass(frozen=True, slots=True)
class UnderstoodFilter:
    """What of a filter is understood: every row that meets the filter meets the predicate too.

    None restricts nothing. `is_whole` tells whether the predicate says all that the filter says.
    """

    predicate: Predicate | None
    is_whole: bool


def parse_understood(
    text: str, schema: StructType, mode: MappingMode = "none", zone: tzinfo = UTC
) -> UnderstoodFilter:
    """Return what can be understood of a filter that an engine applies: parts joined by AND."""
    try:
        return UnderstoodFilter(parse_predicate(text, schema, mode, zone), is_whole=True)
    except BadPredicateError:
        pass
    nothing = UnderstoodFilter(None, is_whole=False)
    if len(text) > MAX_LENGTH:
        return nothing
    parse, failure = _parser()
    reader = _Reader(schema, mode, zone)
    try:
        nodes = _conjuncts(parse(text))
    except (failure, RecursionError):
        return nothing
    found = [part for node in nodes if (part := _readable(reader, node)) is not None]
    return UnderstoodFilter(And(tuple(found)) if found else None, is_whole=False)


def _conjuncts(node: Node) -> list[Node]:
    match type(node).__name__:
        case "Paren":
            return _conjuncts(node.this)
        case "And":
            return [one for part in node.flatten() for one in _conjuncts(part)]
    return [node]


def _readable(reader: _Reader, node: Node) -> Predicate | None:
    try:
        return reader.read_whole(node)
    except (BadPredicateError, RecursionError):
        return None


@cache
def _parser() -> tuple[Callable[[str], Node], type[Exception]]:
    """Load sqlglot (0.3 s, needed by filters only) with a quote inside a text written twice."""
    from sqlglot import errors, parse_one  # noqa: PLC0415
    from sqlglot.dialects.spark import Spark  # noqa: PLC0415

    class Filter(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012 (as the library declares it)

    return partial(parse_one, dialect=Filter), errors.SqlglotError


def _reason(error: Any) -> str:
    details = getattr(error, "errors", None) or [{}]
    description = str(details[0].get("description") or "it is not SQL").strip().rstrip(".")
    if description.startswith("Required keyword"):
        description = "a part is missing"
    near = str(details[0].get("highlight") or "")
    return f"{description} near {near[:60]!r}" if near else description


class _Reader:
    """Walks sqlglot's tree; one instance per filter."""

    def __init__(self, schema: StructType, mode: MappingMode, zone: tzinfo) -> None:
        self._schema = schema
        self._mode = mode
        self._zone = zone

    def read_whole(self, node: Node) -> Predicate:
        """Read a filter, or a part of one that stands for itself."""
        for part in node.walk():
            if any(value and name not in _PARTS for name, value in part.args.items()):
                raise _unsupported(part)
        return self.read(node)

    def read(self, node: Node) -> Predicate:
        kind = type(node).__name__
        name = "comparison" if kind in _OPERATORS else kind.lower()
        read = getattr(self, f"_read_{name}", None)
        if read is None:
            raise _unsupported(node)
        found: Predicate = read(node)
        return Not(found) if node.args.get("negate") else found

    def _read_paren(self, node: Node) -> Predicate:
        return self.read(node.this)

    def _read_and(self, node: Node) -> Predicate:
        return And(tuple(self.read(part) for part in node.flatten()))

    def _read_or(self, node: Node) -> Predicate:
        return Or(tuple(self.read(part) for part in node.flatten()))

    def _read_not(self, node: Node) -> Predicate:
        return Not(self.read(node.this))

    def _read_boolean(self, node: Node) -> Predicate:
        return Constant(bool(node.this))

    def _read_null(self, _: Node) -> Predicate:
        return Constant(None)

    def _read_column(self, node: Node) -> Predicate:
        column = self._column(node)
        if column is None or column.type.name != "boolean":
            raise _unsupported(node)
        return Comparison("=", column, value=True)

    _read_dot = _read_column

    def _read_comparison(self, node: Node) -> Predicate:
        operator = _OPERATORS[type(node).__name__]
        left, right = node.this, node.args["expression"]
        column, other = self._column(left), self._column(right)
        if column is not None and other is not None:
            return self._compare_columns(operator, column, other, node)
        if column is not None:
            return compare(operator, column, _literal(right))
        if other is not None:
            return compare(_FLIPPED.get(operator, operator), other, _literal(left))
        raise _unsupported(node)

    def _compare_columns(
        self, operator: Operator, left: Column, right: Column, node: Node
    ) -> Predicate:
        kinds = {left.type.name, right.type.name}
        if not is_comparable(left) or (len(kinds) > 1 and not kinds <= INTEGER_BITS.keys()):
            raise _unsupported(node)
        return ColumnComparison(operator, left, right)

    def _read_nullsafeneq(self, node: Node) -> Predicate:
        column = self._needed(node.this)
        return Not(compare("<=>", column, _literal(node.args["expression"])))

    def _read_between(self, node: Node) -> Predicate:
        column = self._needed(node.this)
        low = compare(">=", column, _literal(node.args["low"]))
        return And((low, compare("<=", column, _literal(node.args["high"]))))

    def _read_in(self, node: Node) -> Predicate:
        if not node.expressions or node.args.get("query") or node.args.get("unnest"):
            raise _unsupported(node)
        return in_list(self._needed(node.this), [_literal(one) for one in node.expressions])

    def _read_is(self, node: Node) -> Predicate:
        column = self._needed(node.this)
        raw = _literal(node.args["expression"])
        if raw.kind == "null":
            return IsNull(column)
        if raw.kind != "boolean" or column.type.name != "boolean":
            raise _unsupported(node)
        return compare("<=>", column, raw)

    def _read_isnan(self, node: Node) -> Predicate:
        column = self._needed(node.this)
        if column.type.name not in FLOATS:
            raise _unsupported(node)
        return Comparison("<=>", column, math.nan)

    def _read_like(self, node: Node) -> Predicate:
        column = self._needed(node.this)
        raw = _literal(node.args["expression"])
        if raw.kind == "null":
            return Constant(None)
        trailing = len(raw.text) - len(raw.text.rstrip("\\"))
        if column.type.name != "string" or raw.kind != "text" or trailing % 2:
            raise _unsupported(node)
        return Like(column, raw.text)

    def _needed(self, node: Node) -> Column:
        column = self._column(node)
        if column is None:
            raise _unsupported(node)
        return column

    def _column(self, node: Node) -> Column | None:
        path = _path(node)
        if path is None:
            return None
        try:
            leaf = find_column(self._schema, path, self._mode)
        except SchemaError as error:
            raise BadPredicateError(
                f"The filter names the column {'.'.join(path)}, which the table does not have."
            ) from error
        return Column.of(leaf, self._zone)


def _path(node: Node) -> tuple[str, ...] | None:
    kind = type(node).__name__
    if kind == "Paren":
        return _path(node.this)
    if kind == "Dot":
        head, tail = _path(node.this), _path(node.args["expression"])
        return None if head is None or tail is None else (*head, *tail)
    if kind == "Identifier":
        return (str(node.this),)
    if kind == "Column" and all(type(part).__name__ == "Identifier" for part in node.parts):
        return tuple(str(part.this) for part in node.parts)
    return None


def _literal(node: Node) -> Raw:
    match type(node).__name__:
        case "Literal":
            return Raw("text" if node.is_string else "number", str(node.this))
        case "Null":
            return Raw("null", "NULL")
        case "Boolean":
            return Raw("boolean", "true" if node.this else "false")
        case "Paren":
            return _literal(node.this)
        case "Neg":
            raw = _literal(node.this)
            if raw.kind == "number":
                text = raw.text
                return Raw("number", text[1:] if text.startswith("-") else f"-{text}")
        case "Cast" | "TryCast":
            return _cast(node)
    raise _unsupported(node)


def _cast(node: Node) -> Raw:
    """Return a literal with a type beside it, where the type does not change the value."""
    raw = _literal(node.this)
    target = str(getattr(node.to.this, "name", ""))
    if target in _CASTS and raw.kind in {"text", _CASTS[target]}:
        return Raw(_CASTS[target], raw.text)
    is_special = raw.kind == "text" and parse_special_float(raw.text) is not None
    if is_special and target in {"DOUBLE", "FLOAT"}:
        return Raw("number", raw.text)
    number = parse_number(raw.text) if raw.kind in {"text", "number"} else None
    if number is None or not _keeps(number, target, [one.name for one in node.to.expressions]):
        raise _unsupported(node)
    return Raw("number", raw.text)


def _keeps(number: Number, target: str, parameters: list[str]) -> bool:
    if target == "DOUBLE":
        return True
    if target == "FLOAT":
        return round_to_float(float(number)) == number
    if target == "DECIMAL" and len(parameters) == 2:  # noqa: PLR2004 (precision, scale)
        kind = parse_type_name(f"decimal({parameters[0]},{parameters[1]})")
        return isinstance(kind, Decimal) and to_scale(number, kind) == number
    if target in _SUFFIXED:
        low, high = integer_range(_SUFFIXED[target])
        return low <= number <= high and number == int(number)
    return False


def _unsupported(node: Node) -> BadPredicateError:
    shown = node.sql(dialect="spark") if hasattr(node, "sql") else str(node)
    return BadPredicateError(f"The filter holds {shown[:120]!r}, which is not supported.")
