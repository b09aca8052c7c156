"""A filter as frozen values: comparisons of typed columns with typed literals, joined by logic.

Literals are already in the column's own domain (see `values`): an integer column is compared with
an int within its range, a decimal column with a Decimal of its scale, a date with days.
Floats are ordered as in Spark: NaN equals itself and is greater than every number, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Literal, TypeAlias

from deltasql.protocol.schema.columns import Leaf
from deltasql.protocol.values import Value

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True, slots=True)
class Column(Leaf):
    """A column of a filter; `zone` is that of its times that name none."""

    zone: tzinfo = UTC

    @classmethod
    def of(cls, leaf: Leaf, zone: tzinfo) -> Column:
        """Return a column of a table in a filter of that zone."""
        return cls(leaf.path, leaf.physical, leaf.type, leaf.nullable, zone)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`."""

    operator: Operator
    column: Column
    value: Value


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """`left op right`, both columns of one type."""

    operator: Operator
    left: Column
    right: Column


@dataclass(frozen=True, slots=True)
class InList:
    """`column IN (values)`; a null in the list makes a miss unknown instead of false."""

    column: Column
    values: tuple[Value, ...]
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern`; `%` any text, `_` one character, a backslash takes the next as is."""

    column: Column
    pattern: str

    @property
    def prefix(self) -> str:
        """The text that every match begins with."""
        found: list[str] = []
        pieces = iter(self.pattern)
        for piece in pieces:
            if piece in "%_":
                break
            found.append(next(pieces, "") if piece == "\\" else piece)
        return "".join(found)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any part is true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same answer; None is unknown."""

    value: bool | None


Predicate: TypeAlias = (
    Comparison | ColumnComparison | InList | Like | IsNull | Not | And | Or | Constant
)


def columns_of(predicate: Predicate) -> Iterator[Column]:
    """Yield the columns that a filter names, with repetitions."""
    match predicate:
        case Comparison(column=column) | InList(column=column) | Like(column=column):
            yield column
        case IsNull(column=column):
            yield column
        case ColumnComparison(left=left, right=right):
            yield left
            yield right
        case Not(part=part):
            yield from columns_of(part)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from columns_of(part)
