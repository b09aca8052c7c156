"""Delta schemas as Arrow schemas and back, and Arrow columns in the spelling that SQL takes.

Out: one Arrow type per Delta type, microsecond timestamps, UTC for `timestamp`. In: any Arrow type
that Delta can hold without loss (unsigned integers are widened); the rest is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from deltasql.errors import SchemaError
from deltasql.protocol.schema.columns import MappingMode, field_id, physical_name
from deltasql.protocol.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_PRECISION,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    Decimal,
    MapType,
    StructField,
    StructType,
)

FIELD_ID = b"PARQUET:field_id"
TIMESTAMP_UTC = pa.timestamp("us", tz="UTC")

_OUT: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "string": pa.string(),
    "timestamp": TIMESTAMP_UTC,
    "timestamp_ntz": pa.timestamp("us"),
    # The unshredded form of a variant, as it stands in Parquet.
    "variant": pa.struct(
        [
            pa.field("metadata", pa.binary(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
        ]
    ),
    "void": pa.null(),
}

_TEXT, _LONG = pa.string(), pa.int64()


def to_arrow_schema(
    schema: StructType, mode: MappingMode = "none", *, physical: bool = False
) -> pa.Schema:
    """Return the Arrow schema of a table; `physical` as in its files, with names and field ids."""
    return pa.schema([to_arrow_field(field, mode, physical=physical) for field in schema.fields])


def to_arrow_field(
    field: StructField, mode: MappingMode = "none", *, physical: bool = False
) -> pa.Field:
    """Return one column as an Arrow field."""
    kind = to_arrow_type(field.type, mode, physical=physical)
    if not physical:
        return pa.field(field.name, kind, nullable=field.nullable)
    number = None if mode == "none" else field_id(field)
    metadata = None if number is None else {FIELD_ID: str(number).encode()}
    return pa.field(physical_name(field, mode), kind, nullable=field.nullable, metadata=metadata)


def to_arrow_type(
    kind: DataType, mode: MappingMode = "none", *, physical: bool = False
) -> pa.DataType:
    """Return the Arrow type of a Delta type."""
    match kind:
        case Decimal(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case StructType(fields=fields):
            return pa.struct([to_arrow_field(one, mode, physical=physical) for one in fields])
        case ArrayType(element=element, contains_null=contains_null):
            inner = to_arrow_type(element, mode, physical=physical)
            return pa.list_(pa.field("element", inner, nullable=contains_null))
        case MapType(key=key, value=value, value_contains_null=contains_null):
            left = to_arrow_type(key, mode, physical=physical)
            right = to_arrow_type(value, mode, physical=physical)
            return pa.map_(
                pa.field("key", left, nullable=False),
                pa.field("value", right, nullable=contains_null),
            )
    return _OUT[kind.name]


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Return the Delta schema that holds the columns of an Arrow schema.

    Raises:
        SchemaError: a column has a type that Delta cannot hold.
    """
    return StructType(tuple(_from_field(field, "") for field in schema))


def from_arrow_type(kind: pa.DataType, column: str = "") -> DataType:
    """Return the Delta type that holds an Arrow type.

    Raises:
        SchemaError: Delta cannot hold it; the message names the column.
    """
    for accepts, convert in _IN:
        if accepts(kind):
            found = convert(kind, column)
            if found is not None:
                return found
    raise SchemaError(
        f"The column {column or '?'} has the Arrow type {kind}, which Delta cannot hold.",
        hint="Cast the column to a type that Delta has, or leave it out.",
        column=column,
    )


def _from_field(field: pa.Field, path: str) -> StructField:
    here = f"{path}.{field.name}" if path else field.name
    return StructField(field.name, from_arrow_type(field.type, here), field.nullable)


def _timestamp(kind: pa.TimestampType, _: str) -> DataType:
    return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP


def _decimal(kind: Any, _: str) -> DataType | None:
    precision, scale = kind.precision, kind.scale
    if scale < 0:  # whole numbers with zeros at the end
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return Decimal(precision, scale) if precision <= MAX_PRECISION else None


def _list(kind: Any, column: str) -> DataType:
    field = kind.value_field
    return ArrayType(from_arrow_type(field.type, f"{column}.element"), field.nullable)


def _map(kind: pa.MapType, column: str) -> DataType:
    key = from_arrow_type(kind.key_type, f"{column}.key")
    value = from_arrow_type(kind.item_type, f"{column}.value")
    return MapType(key, value, kind.item_field.nullable)


def _struct(kind: pa.StructType, column: str) -> DataType | None:
    if not kind.num_fields:  # Parquet cannot hold it
        return None
    fields = [kind.field(position) for position in range(kind.num_fields)]
    return StructType(tuple(_from_field(field, column) for field in fields))


def _extension(kind: Any, column: str) -> DataType | None:
    """Numbers that mean something else (a period, an 8-bit boolean) are refused by name."""
    storage = from_arrow_type(kind.storage_type, column)
    carries_its_meaning = storage.name in {"string", "binary"} or isinstance(
        storage, StructType | ArrayType | MapType
    )
    return storage if carries_its_meaning else None


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _always(found: DataType) -> Callable[[Any, str], DataType | None]:
    return lambda _kind, _column: found


_IN: list[tuple[Callable[[Any], bool], Callable[[Any, str], DataType | None]]] = [
    (_is_text, _always(STRING)),
    (pa.types.is_int64, _always(LONG)),
    (pa.types.is_int32, _always(INTEGER)),
    (pa.types.is_int16, _always(SHORT)),
    (pa.types.is_int8, _always(BYTE)),
    (pa.types.is_uint8, _always(SHORT)),
    (pa.types.is_uint16, _always(INTEGER)),
    (pa.types.is_uint32, _always(LONG)),
    (pa.types.is_uint64, _always(Decimal(20, 0))),
    (pa.types.is_float64, _always(DOUBLE)),
    (pa.types.is_float32, _always(FLOAT)),
    (pa.types.is_float16, _always(FLOAT)),
    (pa.types.is_boolean, _always(BOOLEAN)),
    (pa.types.is_date, _always(DATE)),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_decimal, _decimal),
    (_is_bytes, _always(BINARY)),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (pa.types.is_null, _always(VOID)),
    (pa.types.is_dictionary, lambda kind, column: from_arrow_type(kind.value_type, column)),
    (pa.types.is_run_end_encoded, lambda kind, column: from_arrow_type(kind.value_type, column)),
    (
        lambda kind: isinstance(kind, pa.BaseExtensionType),
        _extension,
    ),
]


def plain_storage(values: pa.Array) -> pa.Array:
    """Return the values without dictionary or extension type."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def is_textlike(kind: pa.DataType) -> bool:
    """Tell whether a type holds texts, or bytes that an old writer did not mark as texts."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def as_text(values: pa.Array) -> pa.Array:
    """Return texts as `string`, known to be UTF-8.

    Raises:
        TypeError: the column holds something else.
        ValueError: a text is not UTF-8.
    """
    values = plain_storage(values)
    if pa.types.is_null(values.type):
        return values.cast(_TEXT)
    if not is_textlike(values.type):
        raise TypeError(f"a text has the type {values.type}")
    texts = values.cast(_TEXT)
    texts.validate(full=True)
    return texts


def as_long(values: pa.Array) -> pa.Array:
    """Return whole numbers of any width as `int64`.

    Raises:
        TypeError: the column holds something else.
        ValueError: a number needs more bits.
    """
    values = plain_storage(values)
    if not pa.types.is_integer(values.type) and not pa.types.is_null(values.type):
        raise TypeError(f"a number has the type {values.type}")
    return values.cast(_LONG)


def as_bool(values: pa.Array) -> pa.Array:
    """Return truth values as `bool`.

    Raises:
        TypeError: the column holds something else.
    """
    values = plain_storage(values)
    if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
        raise TypeError(f"a truth value has the type {values.type}")
    return values.cast(pa.bool_())


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """Return a nested Python value as JSON would have it: maps as objects, no empty fields.

    Raises:
        ValueError: bytes that an old writer did not mark as text are not UTF-8.
    """
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {
            plain_value(key, kind.key_type): plain_value(one, kind.item_type) for key, one in value
        }
    if pa.types.is_struct(kind):
        inner = {field.name: plain_value(value[field.name], field.type) for field in kind}
        return {name: one for name, one in inner.items() if one is not None}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain_value(one, kind.value_type) for one in value]
    return value.decode() if isinstance(value, bytes) else value
