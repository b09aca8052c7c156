"""A table's columns as Spark types them: Delta's schema is Spark's own JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import types

from deltasql.protocol.arrow_schema import to_arrow_schema
from deltasql.protocol.columns import COLUMN_ID, MappingMode, physical_name
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    print_schema,
)

FIELD_ID = "parquet.field.id"
_Change: TypeAlias = Callable[[StructField], StructField]
# What of a field's metadata is Delta's own affair; its readers do not show it either.
_HIDDEN = ("delta.", FIELD_ID)


def spark_schema(schema: StructType) -> types.StructType:
    """Return the columns as Delta Spark shows them: names, types, nullability, comments."""
    return _parsed(_each(schema, _shown))


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return Spark's columns as Arrow, exactly as Spark wants them from a source."""
    return to_arrow_schema(parse_schema(schema.json()))


def physical_schema(schema: StructType, mode: MappingMode) -> types.StructType:
    """Return the columns by the names they have in data files, with their ids where ids count."""
    return _parsed(_each(schema, lambda field: _physical(field, mode)))


def _parsed(schema: StructType) -> types.StructType:
    return types.StructType.fromJson(json.loads(print_schema(schema)))


def _shown(field: StructField) -> StructField:
    kept = {key: value for key, value in field.metadata.items() if not key.startswith(_HIDDEN)}
    return replace(field, metadata=kept)


def _physical(field: StructField, mode: MappingMode) -> StructField:
    shown = _shown(field)
    if mode == "id":
        shown = replace(shown, metadata={**shown.metadata, FIELD_ID: field.metadata[COLUMN_ID]})
    return replace(shown, name=physical_name(field, mode))


def _each(kind: StructType, change: _Change) -> StructType:
    """Change every field, those of nested structs too."""
    fields = (change(field) for field in kind.fields)
    changed = (
        replace(new, type=_below(old.type, change))
        for old, new in zip(kind.fields, fields, strict=True)
    )
    return StructType(tuple(changed))


def _below(kind: DataType, change: _Change) -> DataType:
    match kind:
        case StructType():
            return _each(kind, change)
        case ArrayType():
            return replace(kind, element=_below(kind.element, change))
        case MapType():
            return replace(kind, key=_below(kind.key, change), value=_below(kind.value, change))
    return kind
