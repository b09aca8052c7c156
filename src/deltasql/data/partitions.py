"""Rows of a batch split by their partition, and a partition's values as the log spells them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import ConstraintViolationError, SchemaError
from deltasql.protocol.schema.columns import MappingMode, physical_name
from deltasql.protocol.schema.types import ArrayType, DataType, MapType, StructField, StructType
from deltasql.protocol.values import TIMESTAMPS, Value, parse_partition_value, print_partition_value
from deltasql.storage.paths import hive_escape

PartitionKey: TypeAlias = tuple[tuple[str, str | None], ...]


def partition_fields(schema: StructType, names: Sequence[str]) -> list[StructField]:
    """Return the partition columns in their order.

    Raises:
        SchemaError: there is no such column, or its type cannot make partitions.
    """
    by_name = {field.name: field for field in schema.fields}
    found = []
    for name in names:
        field = by_name.get(name)
        if field is None:
            raise SchemaError(f"The partition column {name} is not in the schema.", column=name)
        nested = isinstance(field.type, StructType | ArrayType | MapType)
        if nested or field.type.name in {"variant", "void"}:
            raise SchemaError(
                f"The column {name} of type {field.type.name} cannot partition the table.",
                column=name,
            )
        found.append(field)
    return found


def split(
    batch: pa.RecordBatch, fields: Sequence[StructField], mode: MappingMode
) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """Yield the rows of each partition, without the partition columns, in the order they came."""
    if not fields:
        yield (), batch
        return
    rest = batch.drop_columns([field.name for field in fields])
    for rows in _runs(batch, fields):
        first = rows[0].as_py()
        key = tuple(
            (physical_name(field, mode), _text(batch.column(field.name)[first], field))
            for field in fields
        )
        yield key, rest if len(rows) == batch.num_rows else rest.take(rows)


def directory(key: PartitionKey) -> str:
    """Return the Hive-style directory of a partition, with a slash at its end."""
    return "".join(f"{hive_escape(name)}={hive_escape(value)}/" for name, value in key)


def partition_scalar(
    text: str | None, kind: DataType, target: pa.DataType, zone: tzinfo
) -> pa.Scalar | None:
    """Return a partition value as Arrow has it (null for null and ""), None if it does not fit."""
    if not text:
        return pa.scalar(None, target)
    value = parse_partition_value(text, kind, zone)
    return None if value is None else pa.scalar(value, target)


def _runs(batch: pa.RecordBatch, fields: Sequence[StructField]) -> Iterator[pa.Array]:
    """Yield the positions of the rows of each combination of values."""
    codes: Any = None
    for field in fields:
        encoded = batch.column(field.name).dictionary_encode("encode")
        own = encoded.indices.cast(pa.int64())
        width = pa.scalar(len(encoded.dictionary), pa.int64())
        # Counted anew after each column, so that many columns cannot overflow.
        codes = own if codes is None else pc.add(pc.multiply(codes, width), own)
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    order = pc.sort_indices(codes)
    ends = pc.run_end_encode(codes.take(order), run_end_type=pa.int64()).run_ends
    start = 0
    for end in ends.to_pylist():
        yield order.slice(start, end - start)
        start = end


def _text(scalar: pa.Scalar, field: StructField) -> str | None:
    if not scalar.is_valid:
        return None
    is_raw = field.type.name == "date" or field.type.name in TIMESTAMPS
    value: Value = scalar.value if is_raw else scalar.as_py()
    try:
        # The empty text is null: the log has no other way to say it.
        text = print_partition_value(value, field.type) or None
    except UnicodeDecodeError as error:
        raise SchemaError(
            f"The partition column {field.name} holds the bytes {value!r}, which are not UTF-8: "
            "a Delta log cannot hold them.",
            column=field.name,
        ) from error
    except (ValueError, OverflowError) as error:
        raise SchemaError(
            f"The partition column {field.name} holds a date outside of the years 1 to 9999.",
            column=field.name,
        ) from error
    if text is None and not field.nullable:
        raise ConstraintViolationError(
            f"The partition column {field.name} is NOT NULL and cannot hold an empty value: "
            "Delta stores it as null.",
            column=field.name,
        )
    return text
