"""The columns of a DataFrame in Delta's terms and back: Delta's schema is Spark's own JSON."""

from __future__ import annotations

from typing import cast

from pyspark.sql import types

from deltasql.protocol.columns import MappingMode, field_id, physical_name
from deltasql.protocol.schema import DataType, StructField, StructType, parse_schema
from deltasql.spark.schema import FIELD_ID, changed, parsed

# All else that Spark keeps beside a column is its own affair, or that of the table it came from.
_KEPT = ("comment",)


def taken_schema(schema: types.StructType) -> StructType:
    """Return columns of Spark, all of them nullable, as Delta takes them.

    Raises:
        SchemaError: there is a type that Delta cannot hold.
    """
    found = changed(parse_schema(schema.json()), _taken, is_loose=True)
    return cast("StructType", found)


def bare_type(kind: DataType) -> DataType:
    """Return a type with nothing said about its members but their names and types."""
    return changed(kind, lambda field: StructField(field.name, field.type), is_loose=True)


def spark_type(kind: DataType) -> types.DataType:
    """Return a Delta type as Spark's, all members nullable."""
    return parsed(StructType((StructField("value", bare_type(kind)),))).fields[0].dataType


def file_fields(schema: StructType, mode: MappingMode) -> list[types.StructField]:
    """Return the columns of data files: physical names, and ids where columns are mapped."""
    return parsed(changed(schema, lambda field: _in_file(field, mode), is_loose=True)).fields


def _taken(field: StructField) -> StructField:
    kept = {key: field.metadata[key] for key in _KEPT if key in field.metadata}
    return StructField(field.name, field.type, nullable=True, metadata=kept)


def _in_file(field: StructField, mode: MappingMode) -> StructField:
    number = None if mode == "none" else field_id(field)
    metadata = {} if number is None else {FIELD_ID: number}
    return StructField(physical_name(field, mode), field.type, nullable=True, metadata=metadata)
