"""Columns of tables and DataFrames in Delta's terms and in Spark's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

import pyarrow as pa
from pyspark.sql import types

from deltasql.protocol.schema.arrow import to_arrow_schema
from deltasql.protocol.schema.columns import COLUMN_ID, MappingMode, field_id, physical_name
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    print_schema,
)

FIELD_ID = "parquet.field.id"
Change: TypeAlias = Callable[[StructField], StructField]

# What of a field's metadata is Delta's own affair; its readers do not show it either.
_HIDDEN = ("delta.", FIELD_ID)

# All else that Spark keeps beside a column is its own affair, or that of the table it came from.
_KEPT = ("comment",)


def spark_schema(schema: StructType) -> types.StructType:
    """Return the columns as Delta Spark shows them: names, types, nullability, comments."""
    return parsed(changed(schema, _shown))


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return Spark's columns as Arrow, exactly as Spark wants them from a source."""
    return to_arrow_schema(parse_schema(schema.json()))


def physical_schema(schema: StructType, mode: MappingMode) -> types.StructType:
    """Return the columns by the names they have in data files, with their ids where ids count."""
    return parsed(changed(schema, lambda field: _physical(field, mode)))


def parsed(schema: DataType) -> types.StructType:
    """Return a struct as Spark's."""
    assert isinstance(schema, StructType)  # noqa: S101 (changes keep the kind)
    return types.StructType.fromJson(json.loads(print_schema(schema)))


def changed(kind: DataType, change: Change, *, is_loose: bool = False) -> DataType:
    """Return a type with every field changed, those of nested structs too.

    Where it is loose, lists and maps may hold nulls.
    """

    def below(inner: DataType) -> DataType:
        return changed(inner, change, is_loose=is_loose)

    match kind:
        case StructType():
            pairs = ((change(field), field.type) for field in kind.fields)
            return StructType(tuple(replace(new, type=below(old)) for new, old in pairs))
        case ArrayType():
            has_null = kind.contains_null or is_loose
            return replace(kind, element=below(kind.element), contains_null=has_null)
        case MapType():
            has_null = kind.value_contains_null or is_loose
            parts = below(kind.key), below(kind.value)
            return replace(kind, key=parts[0], value=parts[1], value_contains_null=has_null)
    return kind


def _shown(field: StructField) -> StructField:
    kept = {key: value for key, value in field.metadata.items() if not key.startswith(_HIDDEN)}
    return replace(field, metadata=kept)


def _physical(field: StructField, mode: MappingMode) -> StructField:
    shown = _shown(field)
    if mode == "id":
        shown = replace(shown, metadata={**shown.metadata, FIELD_ID: field.metadata[COLUMN_ID]})
    return replace(shown, name=physical_name(field, mode))


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
