"""Columns that rows may leave out because the table says how to make them.

A default is taken where a column is missing; a generated column is computed from the others, and
where the rows bring it, it must hold just that. The expressions are Spark's own SQL.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from deltasql.errors import ConstraintViolationError
from deltasql.protocol.columns import (
    default_expression,
    find_field,
    generation_expression,
)
from deltasql.protocol.schema import StructField, StructType
from deltasql.spark.frame_schema import spark_type
from deltasql.spark.output_columns import output_columns, quoted
from deltasql.spark.row_checks import SparkCheck


def has_made_columns(schema: StructType, given: StructType) -> bool:
    """Tell whether a write of these columns needs a value, or a check, that only Spark can make."""
    is_generated = any(generation_expression(field) is not None for field in schema.fields)
    return is_generated or any(_default(field, given) is not None for field in schema.fields)


def shaped(frame: DataFrame, given: StructType, schema: StructType) -> DataFrame:
    """Return the rows under the table's names and types, in its order, with all that it makes.

    Raises:
        SchemaError: the columns do not fit.
    """
    made = {field.name: text for field, text in _generated(schema, given, are_given=False)}
    rest = StructType(tuple(field for field in schema.fields if field.name not in made))
    defaults = {field.name: _default(field, given) for field in rest.fields}
    taken = {name: column for name, column in defaults.items() if column is not None}
    base = frame.select(*output_columns(given, rest, taken))
    if not made:
        return base
    columns = [
        _value(made[field.name], field) if field.name in made else F.col(quoted(field.name))
        for field in schema.fields
    ]
    return base.select(*columns)


def generated_checks(schema: StructType, given: StructType) -> Iterator[SparkCheck]:
    """Yield what generated columns must hold where the rows bring them."""
    for field, text in _generated(schema, given, are_given=True):
        held = F.col(quoted(field.name)).eqNullSafe(_value(text, field))
        told = f"hold something else in the column {field.name} than it is generated from ({text})."
        yield SparkCheck(~held, ConstraintViolationError, told, {"column": field.name})


def _generated(
    schema: StructType, given: StructType, *, are_given: bool
) -> Iterator[tuple[StructField, str]]:
    for field in schema.fields:
        text = generation_expression(field)
        if text is not None and (find_field(given, field.name) is not None) == are_given:
            yield field, text


def _default(field: StructField, given: StructType) -> Column | None:
    text = default_expression(field)
    if text is None or find_field(given, field.name) is not None:
        return None
    return _value(text, field)


def _value(text: str, field: StructField) -> Column:
    return F.expr(text).cast(spark_type(field.type)).alias(field.name)
