"""The columns of a DataFrame in Delta's terms and back: Delta's schema is Spark's own JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, types

from deltasql.protocol.columns import MappingMode, field_id, physical_name
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    print_schema,
)

_FIELD_ID = "parquet.field.id"
# All else that Spark keeps beside a column is its own affair, or that of the table it came from.
_KEPT = ("comment",)


def frame_schema(frame: DataFrame) -> StructType:
    """Return the columns that a DataFrame brings, all of them nullable, as Delta takes them.

    Raises:
        SchemaError: there is a type that Delta cannot hold.
    """
    return taken_schema(frame.schema)


def taken_schema(schema: types.StructType) -> StructType:
    """Return columns of Spark, all of them nullable, as Delta takes them.

    Raises:
        SchemaError: there is a type that Delta cannot hold.
    """
    found = parse_schema(schema.json())
    return StructType(tuple(_taken(field) for field in found.fields))


def bare_type(kind: DataType) -> DataType:
    """Return a type with nothing said about its members but their names and types."""
    return _taken_type(kind, ())


def spark_type(kind: DataType) -> types.DataType:
    """Return a Delta type as Spark's, all members nullable."""
    return _parsed(StructType((StructField("value", bare_type(kind)),))).fields[0].dataType


def file_fields(schema: StructType, mode: MappingMode) -> list[types.StructField]:
    """Return the columns of data files: physical names, and ids where columns are mapped."""
    return _parsed(StructType(tuple(_physical(field, mode) for field in schema.fields))).fields


def _parsed(schema: StructType) -> types.StructType:
    return types.StructType.fromJson(json.loads(print_schema(schema)))


def _taken(field: StructField, keep: Sequence[str] = _KEPT) -> StructField:
    kept = {key: field.metadata[key] for key in keep if key in field.metadata}
    return StructField(field.name, _taken_type(field.type, keep), nullable=True, metadata=kept)


def _taken_type(kind: DataType, keep: Sequence[str]) -> DataType:
    match kind:
        case StructType(fields=fields):
            return StructType(tuple(_taken(field, keep) for field in fields))
        case ArrayType(element=element):
            return ArrayType(_taken_type(element, keep), contains_null=True)
        case MapType(key=key, value=value):
            parts = _taken_type(key, keep), _taken_type(value, keep)
            return MapType(*parts, value_contains_null=True)
    return kind


def _physical(field: StructField, mode: MappingMode) -> StructField:
    number = None if mode == "none" else field_id(field)
    metadata = {} if number is None else {_FIELD_ID: number}
    kind = _physical_type(field.type, mode)
    return StructField(physical_name(field, mode), kind, nullable=True, metadata=metadata)


def _physical_type(kind: DataType, mode: MappingMode) -> DataType:
    match kind:
        case StructType(fields=fields):
            return StructType(tuple(_physical(field, mode) for field in fields))
        case ArrayType(element=element):
            return replace(kind, element=_physical_type(element, mode), contains_null=True)
        case MapType(key=key, value=value):
            parts = _physical_type(key, mode), _physical_type(value, mode)
            return MapType(*parts, value_contains_null=True)
    return kind
