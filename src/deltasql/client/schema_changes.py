"""The table as a write needs it: as it is, with new columns merged in, or with another schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import pyarrow as pa

from deltasql.catalog.snapshots import Snapshot
from deltasql.errors import BadArgumentError, SchemaError
from deltasql.protocol.actions import Add, Metadata
from deltasql.protocol.arrow_schema import from_arrow_schema
from deltasql.protocol.columns import check_names, find_field, mapping_mode
from deltasql.protocol.features import listed_features, with_features
from deltasql.protocol.required_features import required_features
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    print_schema,
)

SchemaMode = Literal["strict", "merge", "overwrite"]


def fitted_snapshot(
    snapshot: Snapshot, schema: pa.Schema | StructType, mode: SchemaMode
) -> Snapshot:
    """Return the snapshot with the schema that the write will leave behind.

    Raises:
        SchemaError: the change is one that this table cannot take.
    """
    if mode == "strict":
        return snapshot
    if mode not in {"merge", "overwrite"}:
        raise BadArgumentError(f"schema_mode is strict, merge or overwrite, not {mode!r}.")
    given = schema if isinstance(schema, StructType) else from_arrow_schema(schema)
    wanted = _merged(snapshot.schema, given) if mode == "merge" else _replaced(snapshot, given)
    if wanted == snapshot.schema:
        return snapshot
    if mapping_mode(snapshot.metadata.configuration) != "none":
        raise SchemaError("The schema of a table with column mapping is changed by Delta Spark.")
    check_names(wanted, before=snapshot.schema)
    metadata = msgspec.structs.replace(snapshot.metadata, schema_string=print_schema(wanted))
    return _with_metadata(snapshot, metadata)


def require_replaced(snapshot: Snapshot, staying: Add | None) -> None:
    """Refuse another schema while a file of the old one stays: nobody could read both.

    Raises:
        SchemaError: names the file.
    """
    if staying is not None:
        raise SchemaError(
            f"The schema of {snapshot.table.full_name} cannot be replaced: the rows in "
            f"{staying.path} stay.",
            hint="Overwrite all rows to replace the schema, or add columns with "
            'schema_mode="merge".',
            table=snapshot.table.full_name,
        )


def _with_metadata(snapshot: Snapshot, metadata: Metadata) -> Snapshot:
    listed = listed_features(snapshot.protocol)
    protocol = with_features(snapshot.protocol, required_features(metadata, listed))
    definition = replace(snapshot.definition, metadata=metadata, protocol=protocol)
    return replace(snapshot, definition=definition)


def _merged(schema: StructType, given: StructType) -> StructType:
    """Return the columns with new ones behind them, at every depth."""
    kept = [_merged_field(field, find_field(given, field.name)) for field in schema.fields]
    new = [field for field in given.fields if find_field(schema, field.name) is None]
    nullable = [replace(field, nullable=True) for field in new]
    return StructType((*kept, *nullable))


def _merged_field(field: StructField, given: StructField | None) -> StructField:
    if given is None:
        return field
    kind = _merged_type(field.type, given.type)
    return field if kind == field.type else replace(field, type=kind)


def _merged_type(kind: DataType, given: DataType) -> DataType:
    match kind, given:
        case StructType(), StructType():
            return _merged(kind, given)
        case ArrayType(element=mine), ArrayType(element=other):
            return replace(kind, element=_merged_type(mine, other))
        case MapType(key=key, value=mine), MapType(value=other):
            return MapType(key, _merged_type(mine, other), kind.value_contains_null)
    return kind


def _replaced(snapshot: Snapshot, given: StructType) -> StructType:
    for name in snapshot.metadata.partition_columns:
        if find_field(given, name) is None:
            raise SchemaError(f"The new schema lacks the partition column {name}.", column=name)
    return given
