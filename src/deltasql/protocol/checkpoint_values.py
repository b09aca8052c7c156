"""Parts of a checkpoint's file that SQL keeps as JSON text: maps, vectors, unknown fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.arrow_schema import from_arrow_type
from deltasql.protocol.arrow_text import as_text, plain_storage, plain_value
from deltasql.protocol.codec import dump_values
from deltasql.protocol.schema import DataType
from deltasql.protocol.values import print_partition_value

_Entries: TypeAlias = tuple[tuple[str, str | None], ...]

_TEXT, _LONG = pa.string(), pa.int64()
_VECTOR_FIELDS = frozenset(f.encode_name for f in msgspec.structs.fields(DeletionVector))
_NUMBERED = {"date": pa.int32(), "timestamp": _LONG, "timestamp_ntz": _LONG}


def map_texts(maps: pa.Array) -> pa.Array:
    """Return maps of texts as canonical JSON; each different map is written once.

    Raises:
        TypeError: the column holds something else.
        ValueError: a text is not UTF-8.
    """
    if pa.types.is_null(maps.type) or maps.null_count == len(maps):
        return pa.nulls(len(maps), _TEXT)
    if not pa.types.is_map(maps.type):
        raise TypeError(f"a map has the type {maps.type}")
    written: dict[_Entries, str] = {}
    texts = []
    for entries in _entries(maps):
        text = written.get(entries)
        if text is None:
            text = written[entries] = dump_values(dict(entries))
        texts.append(text)
    made = pa.array(texts, _TEXT)
    return pc.if_else(maps.is_valid(), made, pa.scalar(None, _TEXT)) if maps.null_count else made


def _entries(maps: pa.MapArray) -> Iterator[_Entries]:
    """Yield the entries of every map; nothing for a null."""
    offsets = maps.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    keys = as_text(maps.keys.slice(first, last - first)).to_pylist()
    values = as_text(maps.items.slice(first, last - first)).to_pylist()
    pairs = list(zip(keys, values, strict=True))
    lengths = pc.unique(pc.subtract(offsets[1:], offsets[:-1])).to_pylist()
    if len(lengths) == 1 and lengths[0]:  # nearly always: each file has all partition columns
        return zip(*[iter(pairs)] * lengths[0], strict=True)
    places = offsets.to_pylist()
    return (tuple(pairs[start - first : end - first]) for start, end in pairwise(places))


def parsed_partition_texts(parsed: pa.StructArray) -> pa.Array:
    """Return typed partition values as the JSON of their texts.

    Raises:
        ValueError, SchemaError: a value cannot be the value of a partition.
    """
    names = [field.name for field in parsed.type]
    columns = [_partition_column(plain_storage(child)) for child in parsed.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(parsed)
    texts = [dump_values(dict(zip(names, row, strict=True))) for row in rows]
    return pc.if_else(parsed.is_valid(), pa.array(texts, _TEXT), pa.scalar(None, _TEXT))


def _partition_column(values: pa.Array) -> list[str | None]:
    if pa.types.is_null(values.type):
        return [None] * len(values)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))
    kind = from_arrow_type(values.type)
    number = _NUMBERED.get(kind.name)
    plain = values if number is None else values.view(number)
    return [_partition_value(value, kind) for value in plain.to_pylist()]


def _partition_value(value: Any, kind: DataType) -> str | None:
    return None if value is None else print_partition_value(value, kind)


def vector_columns(found: pa.Array | None, count: int) -> tuple[pa.Array, pa.Array]:
    """Return identity and text of the deletion vectors of `count` files.

    Raises:
        TypeError, ValueError: a vector lacks a field, or a field is of another type.
    """
    none = pa.repeat(pa.scalar("", _TEXT), count), pa.nulls(count, _TEXT)
    if found is None or found.null_count == count:
        return none
    if not pa.types.is_struct(found.type):
        raise TypeError(f"`deletionVector` has the type {found.type}")
    there = found.is_valid()
    made = [_vector(row) for row in found.filter(there).to_pylist()]
    return tuple(
        pc.replace_with_mask(base, there, pa.array(values, _TEXT))
        for base, values in zip(none, zip(*made, strict=True), strict=True)
    )


def _vector(row: Mapping[str, Any]) -> tuple[str, str | None]:
    told = {key: value for key, value in row.items() if value is not None}
    if not told:
        return "", None
    known = {key: value for key, value in told.items() if key in _VECTOR_FIELDS}
    return msgspec.convert(known, DeletionVector).id, dump_values(told)


def extra_texts(unknown: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return fields that we do not know as JSON, per file; null where there are none."""
    told = {name: column for name, column in unknown.items() if column.null_count < count}
    if not told:
        return pa.nulls(count, _TEXT)
    columns = [_unknown(column) for column in told.values()]
    return pa.array([_extra(tuple(told), row) for row in zip(*columns, strict=True)], _TEXT)


def _unknown(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    try:
        return [plain_value(value, column.type) for value in values]
    except UnicodeDecodeError:  # bytes that are no text: JSON has them in base64
        return values


def _extra(names: Sequence[str], row: Sequence[Any]) -> str | None:
    found = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return dump_values(found) if found else None
