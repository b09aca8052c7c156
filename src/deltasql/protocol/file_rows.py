"""The files of a table's state as rows in SQL's columns, and the way there from actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.protocol.actions import EXTRA_KEY, Add, DeletionVector, Remove
from deltasql.protocol.codec import dump_values

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
