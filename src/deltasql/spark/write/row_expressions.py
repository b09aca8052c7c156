"""What rows must satisfy, told to Spark: it counts those that do not while it writes.

Constraints are Spark's own SQL, so here every one can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from deltasql.data.constraints import check_texts
from deltasql.errors import ConstraintViolationError, DeltaSqlError, SchemaError
from deltasql.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from deltasql.protocol.text_limits import text_limits
from deltasql.spark.output_columns import quoted

# Spark writes a null by this name, so that it cannot be told from the text itself.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class SparkCheck:
    """A condition that no row may meet, and what is said if some do; `{}` is how many."""

    broken: Column
    error: type[DeltaSqlError]
    message: str
    subject: Mapping[str, str]

    def refuse(self, count: int) -> None:
        """Refuse rows that meet the condition.

        Raises:
            ConstraintViolationError, SchemaError: names the constraint or the column.
        """
        if count:
            raise self.error(f"{count} rows {self.message}", **self.subject)


def spark_checks(
    schema: StructType, configuration: Mapping[str, str], partition_columns: Sequence[str] = ()
) -> list[SparkCheck]:
    """Return all checks of a table, over its columns under their logical names."""
    return [
        *_not_null(schema),
        *_constraints(schema, configuration),
        *_lengths(schema),
        *_partitions(schema, partition_columns),
    ]


def _constraints(schema: StructType, configuration: Mapping[str, str]) -> Iterator[SparkCheck]:
    for name, text in check_texts(schema, configuration):
        # unknown is not enough
        broken = ~F.coalesce(F.expr(text).cast("boolean"), F.lit(False))
        told = f"break the constraint {name} ({text})."
        yield SparkCheck(broken, ConstraintViolationError, told, {"constraint": name})


def _not_null(schema: StructType) -> Iterator[SparkCheck]:
    for field in schema.fields:
        column = F.col(quoted(field.name))
        for path, broken in _nulls(field, column, field.name):
            told = f"have no value in the column {path}, which is NOT NULL."
            yield SparkCheck(broken, ConstraintViolationError, told, {"column": path})


def _nulls(field: StructField, column: Column, path: str) -> Iterator[tuple[str, Column]]:
    """Yield the members that must not be null with the condition that they are."""
    if not field.nullable:
        yield path, column.isNull()
    for name, condition in _nulls_within(field.type, column, path):
        # a null struct has no members to be null
        yield name, F.coalesce(column.isNotNull() & condition, F.lit(False))


def _nulls_within(kind: DataType, column: Column, path: str) -> Iterator[tuple[str, Column]]:
    match kind:
        case StructType(fields=fields):
            for field in fields:
                yield from _nulls(field, column.getField(field.name), f"{path}.{field.name}")
        case ArrayType(element=element, contains_null=contains_null):
            field = StructField("element", element, contains_null)
            yield from _in_each(field, column, f"{path}.element")
        case MapType(key=key, value=value, value_contains_null=contains_null):
            of_key = StructField("key", key, nullable=False)
            of_value = StructField("value", value, contains_null)
            yield from _in_each(of_key, F.map_keys(column), f"{path}.key")
            yield from _in_each(of_value, F.map_values(column), f"{path}.value")


def _in_each(field: StructField, values: Column, path: str) -> Iterator[tuple[str, Column]]:
    def is_broken(value: Column) -> Column:
        return reduce(or_, (condition for _, condition in _nulls(field, value, path)))

    if any(_nulls(field, F.lit(None), path)):
        yield path, F.exists(values, is_broken)


def _lengths(schema: StructType) -> Iterator[SparkCheck]:
    for limit in text_limits(schema):
        broken = _too_long(F.col(quoted(limit.place[0])), schema, limit.place, limit.length)
        told = f"have a text in the column {limit.path} that is too long for its {limit.type}."
        yield SparkCheck(broken, ConstraintViolationError, told, {"column": limit.path})


def _too_long(column: Column, above: DataType, place: tuple[str, ...], length: int) -> Column:
    """Return the condition that a text at a place below is too long; `column` is at its head."""
    kind = _kind_at(above, place[0])
    if len(place) == 1:
        return F.coalesce(F.length(column) > length, F.lit(False))
    rest = place[1:]
    match kind:
        case ArrayType():
            values = column
        case MapType():
            values = F.map_keys(column) if rest[0] == "key" else F.map_values(column)
        case _:
            return _too_long(column.getField(rest[0]), kind, rest, length)
    found = F.exists(values, lambda value: _too_long(value, kind, rest, length))
    return F.coalesce(found, F.lit(False))


def _kind_at(above: DataType, step: str) -> DataType:
    match above:
        case StructType(fields=fields):
            return next(field.type for field in fields if field.name == step)
        case ArrayType(element=element):
            return element
        case MapType(key=key, value=value):
            return key if step == "key" else value
    return above


def _partitions(schema: StructType, names: Sequence[str]) -> Iterator[SparkCheck]:
    for field in schema.fields:
        if field.name in names and field.type.name == "string":
            broken = F.coalesce(F.col(quoted(field.name)) == F.lit(_HIVE_NULL), F.lit(False))
            told = f"have the text {_HIVE_NULL} in the partition column {field.name}."
            yield SparkCheck(broken, SchemaError, told, {"column": field.name})
