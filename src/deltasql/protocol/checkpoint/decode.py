"""The files of a checkpoint in SQL's columns: structs turned by whole columns.

The same file gives the same row as its action does when it is committed. A struct whose fields are
all null holds no action (writers with required columns make such); one without a path but with
anything else is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.actions import EXTRA_KEY, Add, DeletionVector, Remove
from deltasql.protocol.checkpoint.parsed_columns import stats_texts
from deltasql.protocol.codec import dump_values
from deltasql.protocol.schema.arrow import (
    as_bool,
    as_long,
    as_text,
    from_arrow_type,
    plain_storage,
    plain_value,
)
from deltasql.protocol.schema.types import DataType
from deltasql.protocol.values import print_partition_value

_TEXT, _LONG, _BOOL = pa.string(), pa.int64(), pa.bool_()
ADD_SCHEMA = pa.schema(
    [
        pa.field("path", _TEXT, nullable=False),
        pa.field("dv_id", _TEXT, nullable=False),
        pa.field("size", _LONG, nullable=False),
        pa.field("modification_time", _LONG, nullable=False),
        pa.field("partition_values", _TEXT, nullable=False),
        ("stats", _TEXT),
        ("num_records", _LONG),
        ("tags", _TEXT),
        ("deletion_vector", _TEXT),
        ("base_row_id", _LONG),
        ("default_row_commit_version", _LONG),
        ("clustering_provider", _TEXT),
        pa.field("data_change", _BOOL, nullable=False),
        ("unknown_fields", _TEXT),
    ]
)
REMOVE_SCHEMA = pa.schema(
    [
        pa.field("path", _TEXT, nullable=False),
        pa.field("dv_id", _TEXT, nullable=False),
        ("size", _LONG),
        ("partition_values", _TEXT),
        ("deletion_vector", _TEXT),
        ("base_row_id", _LONG),
        ("default_row_commit_version", _LONG),
        ("deletion_timestamp", _LONG),
        pa.field("remove_data_change", _BOOL, nullable=False),
        ("extended_file_metadata", _BOOL),
    ]
)
_HIGHEST = 2**63 - 1

_Entries: TypeAlias = tuple[tuple[str, str | None], ...]
_VECTOR_FIELDS = frozenset(f.encode_name for f in msgspec.structs.fields(DeletionVector))
_NUMBERED = {"date": pa.int32(), "timestamp": _LONG, "timestamp_ntz": _LONG}

# Typed twins of a text: read only where the text is missing.
PARSED = {"stats": "stats_parsed", "partitionValues": "partitionValues_parsed"}
_KNOWN = frozenset(
    [*(field.encode_name for field in msgspec.structs.fields(Add)), *PARSED.values()]
)


class _Counted(msgspec.Struct, rename="camel", gc=False):
    num_records: Any = None


_COUNTED = msgspec.json.Decoder(_Counted)


def rows_of_adds(adds: Sequence[Add]) -> pa.RecordBatch:
    """Return adds as rows of SQL's file list."""
    columns: dict[str, list[Any]] = {
        **_shared_columns(adds),
        "modification_time": [add.modification_time for add in adds],
        "stats": [add.stats for add in adds],
        "num_records": [count_records(add.stats) for add in adds],
        "tags": [_values(add.tags) for add in adds],
        "clustering_provider": [add.clustering_provider for add in adds],
        "data_change": [add.data_change for add in adds],
        "unknown_fields": [_values(add.extra) for add in adds],
    }
    return pa.RecordBatch.from_pydict(columns, schema=ADD_SCHEMA)


def rows_of_removes(removes: Sequence[Remove]) -> pa.RecordBatch:
    """Return removes as rows of SQL's tombstones."""
    columns: dict[str, list[Any]] = {
        **_shared_columns(removes),
        "deletion_timestamp": [remove.deletion_timestamp for remove in removes],
        "remove_data_change": [remove.data_change for remove in removes],
        "extended_file_metadata": [remove.extended_file_metadata for remove in removes],
    }
    return pa.RecordBatch.from_pydict(columns, schema=REMOVE_SCHEMA)


def count_records(stats: str | None) -> int | None:
    """Return the number of rows that statistics tell, if it can be read and SQL can hold it."""
    if not stats:
        return None
    try:
        found = _COUNTED.decode(stats).num_records
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is int and 0 <= found <= _HIGHEST else None


def _shared_columns(files: Sequence[Add] | Sequence[Remove]) -> dict[str, list[Any]]:
    return {
        "path": [file.path for file in files],
        "dv_id": [file.dv_id for file in files],
        "size": [file.size for file in files],
        "partition_values": [_values(file.partition_values) for file in files],
        "deletion_vector": [_vector(file.deletion_vector) for file in files],
        "base_row_id": [file.base_row_id for file in files],
        "default_row_commit_version": [file.default_row_commit_version for file in files],
    }


def _values(values: Mapping[str, Any] | None) -> str | None:
    return None if values is None else dump_values(values)


def _vector(vector: DeletionVector | None) -> str | None:
    if vector is None:
        return None
    plain = msgspec.to_builtins(vector)
    plain.update(plain.pop(EXTRA_KEY, None) or {})
    return dump_values(plain)


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
    made = [_vector_text(row) for row in found.filter(there).to_pylist()]
    return tuple(
        pc.replace_with_mask(base, there, pa.array(values, _TEXT))
        for base, values in zip(none, zip(*made, strict=True), strict=True)
    )


def _vector_text(row: Mapping[str, Any]) -> tuple[str, str | None]:
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


def present(found: pa.StructArray, kind: str) -> pa.StructArray:
    """Return the structs that hold an action.

    Raises:
        ValueError: one has no path.
    """
    if "path" not in [field.name for field in found.type]:
        raise ValueError(f"`{kind}` has no column path")
    rows = found.filter(found.is_valid()) if found.null_count else found
    path = rows.field("path")
    if not path.null_count:
        return rows
    without = rows.filter(path.is_null())
    if any(field.null_count < len(without) for field in without.flatten()):
        raise ValueError(f"a row of `{kind}` has no path")
    return rows.filter(path.is_valid())


def lacks_text(adds: pa.StructArray) -> bool:
    """Tell whether an add has no statistics or no partition values as text."""
    names = [field.name for field in adds.type]
    return any(name not in names or adds.field(name).null_count for name in PARSED)


def add_rows(adds: pa.StructArray) -> pa.RecordBatch:
    """Return adds as rows of SQL's file list.

    Raises:
        ValueError, TypeError, pyarrow.ArrowException: a field is missing or not what it must be.
    """
    fields = _Fields(adds)
    stats = fields.text_or_parsed("stats", as_text, stats_texts)
    unknown = {name: column for name, column in fields.columns.items() if name not in _KNOWN}
    return fields.batch(
        ADD_SCHEMA,
        {
            "modification_time": fields.read("modificationTime", as_long),
            "partition_values": fields.text_or_parsed(
                "partitionValues", map_texts, parsed_partition_texts
            ),
            "stats": stats,
            "num_records": pa.array([count_records(text) for text in stats.to_pylist()], _LONG),
            "tags": fields.read("tags", map_texts),
            "clustering_provider": fields.read("clusteringProvider", as_text),
            "data_change": fields.data_change(),
            "unknown_fields": extra_texts(unknown, fields.count),
        },
    )


def remove_rows(removes: pa.StructArray) -> pa.RecordBatch:
    """Return removes as rows of SQL's tombstones.

    Raises:
        ValueError, TypeError, pyarrow.ArrowException: a field is missing or not what it must be.
    """
    fields = _Fields(removes)
    return fields.batch(
        REMOVE_SCHEMA,
        {
            "partition_values": fields.read("partitionValues", map_texts),
            "deletion_timestamp": fields.read("deletionTimestamp", as_long),
            "remove_data_change": fields.data_change(),
            "extended_file_metadata": fields.read("extendedFileMetadata", as_bool),
        },
    )


class _Fields:
    """The fields of adds or removes by name, each read as what it must be."""

    def __init__(self, rows: pa.StructArray) -> None:
        names = [field.name for field in rows.type]
        self.count = len(rows)
        self.columns: dict[str, pa.Array] = dict(zip(names, rows.flatten(), strict=True))

    def read(self, name: str, read: Callable[[pa.Array], pa.Array]) -> pa.Array:
        """Return a field; nulls where the file does not have it."""
        found = self.columns.get(name)
        try:
            return read(pa.nulls(self.count) if found is None else found)
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{name}`: {error}") from error

    def text_or_parsed(
        self,
        name: str,
        read: Callable[[pa.Array], pa.Array],
        spell: Callable[[pa.StructArray], pa.Array],
    ) -> pa.Array:
        """Return a field that is text; where that is missing, its typed twin spelled."""
        texts, parsed = self.read(name, read), self.columns.get(PARSED[name])
        if not texts.null_count or parsed is None or not pa.types.is_struct(parsed.type):
            return texts
        return pc.coalesce(texts, self.read(PARSED[name], spell))

    def data_change(self) -> pa.Array:
        """Return whether rows change: what a checkpoint brings does not, unless it says so."""
        return pc.fill_null(self.read("dataChange", as_bool), pa.scalar(value=False))

    def batch(self, schema: pa.Schema, own: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the rows: the columns that adds and removes share, and those given."""
        path = self.read("path", as_text)
        dv_id, vector = vector_columns(self.columns.get("deletionVector"), self.count)
        columns = {
            "path": path,
            "dv_id": dv_id,
            "size": self.read("size", as_long),
            "deletion_vector": vector,
            "base_row_id": self.read("baseRowId", as_long),
            "default_row_commit_version": self.read("defaultRowCommitVersion", as_long),
            **own,
        }
        for field in schema:
            if not field.nullable and columns[field.name].null_count:
                raise ValueError(f"a file has no {field.name}")
        return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)
