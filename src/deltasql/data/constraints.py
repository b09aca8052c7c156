"""What rows must satisfy: constraints, lengths of char and varchar, and defaults of missing
columns.

What a write would need and we cannot do (generated and identity columns, defaults, constraints
beyond our filters) is refused by name before any file is made.

Defaults that are plain literals: rows that leave such a column out get its value. What a default
says beyond that (functions, arithmetic, times in the zone of some session) only Spark can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import BadPredicateError, ConstraintViolationError, UnsupportedFeatureError
from deltasql.protocol.predicate import parse_predicate, to_arrow
from deltasql.protocol.predicate.ast import Comparison, IsNull
from deltasql.protocol.schema.arrow import to_arrow_type
from deltasql.protocol.schema.columns import (
    CONSTRAINT_PREFIX,
    INVARIANTS,
    default_expression,
    fields_with_paths,
    has_default,
    invariant,
    is_generated,
    is_identity,
)
from deltasql.protocol.schema.types import StructField, StructType, TextLimit

# Without a zone their literals mean another moment in each session.
_ZONED = "timestamp"


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A condition that every row must make true; unknown is not enough."""

    name: str
    text: str
    expression: Any


def row_checks(
    schema: StructType, configuration: Mapping[str, str], zone: tzinfo = UTC
) -> list[RowCheck]:
    """Return the table's CHECK constraints and invariants, ready to be evaluated.

    Times in them that name no zone are those of `zone`.

    Raises:
        UnsupportedFeatureError: one of them says more than our filters can.
    """
    return [to_check(name, text, schema, zone) for name, text in check_texts(schema, configuration)]


def check_texts(schema: StructType, configuration: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the name and the SQL text of the table's CHECK constraints and invariants.

    Raises:
        UnsupportedFeatureError: an invariant cannot be read.
    """
    texts = [
        (key.removeprefix(CONSTRAINT_PREFIX), text)
        for key, text in configuration.items()
        if key.startswith(CONSTRAINT_PREFIX)
    ]
    for path, field in fields_with_paths(schema):
        text = invariant(field)
        if text is not None:
            texts.append((f"invariant of {path}", _invariant_text(text, path)))
    return texts


def enforce(checks: Iterable[RowCheck], batch: pa.RecordBatch) -> None:
    """Refuse a batch (logical names, table types) with a row that breaks a check.

    Raises:
        ConstraintViolationError: names the constraint.
    """
    for check in checks:
        kept = pa.Table.from_batches([batch]).filter(check.expression).num_rows
        if kept != batch.num_rows:
            raise ConstraintViolationError(
                f"{batch.num_rows - kept} rows break the constraint {check.name} ({check.text}).",
                constraint=check.name,
            )


def check_not_null(field: StructField, array: Any, parent: Any, path: str) -> None:
    """Refuse nulls in a column that is NOT NULL; below a null struct they are none.

    Raises:
        ConstraintViolationError: names the column.
    """
    if field.nullable or not array.null_count:
        return
    nulls = array.is_null()
    if parent is not None and parent.null_count:
        nulls = pc.and_(nulls, parent.is_valid())
    count = pc.sum(nulls).as_py() or 0
    if count:
        raise ConstraintViolationError(
            f"{count} rows have no value in the column {path}, which is NOT NULL.", column=path
        )


def refuse_unwritable(schema: StructType, provided: Iterable[str]) -> None:
    """Refuse columns whose values we cannot make, given the columns that the rows bring.

    Raises:
        UnsupportedFeatureError: names the column.
    """
    refuse_unknown_values(schema)
    present = {name.lower() for name in provided}
    for path, field in fields_with_paths(schema):
        if is_generated(field):
            raise _unwritable(path, "is generated from other columns")
        if has_default(field) and path.lower() not in present and "." not in path:
            raise _unwritable(path, "has a default and is missing from the rows")


def refuse_unknown_values(schema: StructType) -> None:
    """Refuse columns whose values nobody here can make, not by SQL expressions either.

    Raises:
        UnsupportedFeatureError: names the column.
    """
    for path, field in fields_with_paths(schema):
        if is_identity(field):
            raise _unwritable(path, "is an identity column")
        if field.type.name == "variant":
            raise _unwritable(path, "is a variant")
        if is_generated(field) and "." in path:
            raise _unwritable(path, "is generated inside of another column")


def _unwritable(path: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"The column {path} {what}: this write is not supported.", column=path
    )


def to_check(name: str, text: str, schema: StructType, zone: tzinfo = UTC) -> RowCheck:
    """Return one condition, ready to be evaluated.

    Raises:
        UnsupportedFeatureError: it says more than our filters can.
    """
    try:
        return RowCheck(name, text, to_arrow(parse_predicate(text, schema, zone=zone)))
    except BadPredicateError as error:
        raise UnsupportedFeatureError(
            f"The constraint {name} ({text}) cannot be checked: {error.message}", constraint=name
        ) from error


def _invariant_text(text: str, path: str) -> str:
    try:
        return str(json.loads(text)["expression"]["expression"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnsupportedFeatureError(
            f"The property {INVARIANTS} of the column {path} cannot be read.", column=path
        ) from error


def enforce_lengths(limits: Iterable[TextLimit], batch: pa.RecordBatch) -> None:
    """Refuse a batch (logical names, table types) with a text that is too long.

    Raises:
        ConstraintViolationError: names the column.
    """
    for limit in limits:
        texts = batch.column(limit.place[0])
        for step in limit.place[1:]:
            texts = _below(texts, step)
        count = pc.sum(pc.greater(pc.utf8_length(texts), limit.length)).as_py() or 0
        if count:
            raise ConstraintViolationError(
                f"{count} texts in the column {limit.path} are too long for its {limit.type}.",
                column=limit.path,
            )


def _below(array: Any, step: str) -> Any:
    if pa.types.is_struct(array.type):
        return pc.struct_field(array, step)
    if not pa.types.is_map(array.type):
        return pc.list_flatten(array)
    kinds = [
        pa.field("key", array.type.key_type, nullable=False),
        pa.field("value", array.type.item_type),
    ]
    # the keys of a slice would be those of all
    return pc.struct_field(pc.list_flatten(array.cast(pa.list_(pa.struct(kinds)))), step)


def literal_default(field: StructField) -> pa.Scalar | None:
    """Return the value of a column's default, or None if there is none that we can tell."""
    text = default_expression(field)
    if text is None or field.type.name == _ZONED or "\\" in text:
        return None
    alone = StructField("value", field.type)
    try:
        # a comparison brings a literal into the domain of the column's type, exactly or not at all
        found = parse_predicate(f"value <=> {text}", StructType((alone,)))
    except BadPredicateError:
        return None
    target = to_arrow_type(field.type)
    match found:
        case Comparison(operator="<=>", value=value):
            return pa.scalar(value, target)
        case IsNull():
            return pa.scalar(None, target)
    return None


def missing_defaults(schema: StructType, provided: Iterable[str]) -> dict[str, pa.Scalar]:
    """Return the defaults of the columns that the rows leave out, where we can tell them."""
    present = {name.lower() for name in provided}
    left_out = [field for field in schema.fields if field.name.lower() not in present]
    found = {field.name: literal_default(field) for field in left_out}
    return {name: value for name, value in found.items() if value is not None}


def filled(batch: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Return the rows with the columns that they left out."""
    for name, value in defaults.items():
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch
