"""Checkpoints read the slow way, row by row through actions: what the fast way must agree with."""

import io
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.log.checkpoint_reader import checkpoint_parts, read_files
from deltasql.metastore.commit.insert import file_columns, parsed_stats
from deltasql.protocol.actions import Action, Add, Remove
from deltasql.protocol.codec import dump_values, from_json_object
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, checkpoint_path
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore

_MAPS = frozenset({"partitionValues", "tags", "configuration", "options"})
_PARSED = frozenset({"stats_parsed", "partitionValues_parsed"})
VERSION = 7
KEY = checkpoint_path(VERSION)
CLASSIC = [LogFile.parse(KEY.removeprefix(LOG_FOLDER))]


def actions_of(data: bytes) -> list[Action]:
    """The actions of a Parquet file, one row after the other; typed twins are left out."""
    found = []
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        for kind, body in row.items():
            if body is not None and any(value is not None for value in body.values()):
                plain = _plain(body)
                plain.setdefault("dataChange", False) if kind in {"add", "remove"} else None
                found.append(from_json_object({kind: plain}))
    return found


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    told = {k: v for k, v in body.items() if v is not None and k not in _PARSED}
    return {
        key: dict(value)
        if key in _MAPS and isinstance(value, list)
        else _plain(value)
        if isinstance(value, dict)
        else value
        for key, value in told.items()
    }


_OF_SQL = {"file_id", "file_key", "path_hash"}


def add_rows(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """The rows that a commit would write for the adds."""
    adds = [action for action in actions if isinstance(action, Add)]
    columns = file_columns(adds, range(len(adds)), parsed_stats(adds))
    names = [name for name in columns if name not in _OF_SQL]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*map(columns.get, names), strict=True)
    ]


def remove_rows(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """The tombstones that a commit would write for removes of files that it does not know."""
    return [_tombstone(action) for action in actions if isinstance(action, Remove)]


def _tombstone(remove: Remove) -> dict[str, Any]:
    vector = remove.deletion_vector
    values = remove.partition_values
    plain = {} if vector is None else msgspec.to_builtins(vector)
    plain.update(plain.pop("~extra", None) or {})
    return {
        "path": remove.path,
        "dv_id": remove.dv_id,
        "size": remove.size,
        "partition_values": None if values is None else dump_values(values),
        "deletion_vector": dump_values(plain) if plain else None,
        "base_row_id": remove.base_row_id,
        "default_row_commit_version": remove.default_row_commit_version,
        "deletion_timestamp": remove.deletion_timestamp,
        "remove_data_change": remove.data_change,
        "extended_file_metadata": remove.extended_file_metadata,
    }


def fast_rows(
    store: ObjectStore, files: list[LogFile] = CLASSIC, **options: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The adds and removes of a checkpoint as the importer reads them."""
    adds: list[dict[str, Any]] = []
    removes: list[dict[str, Any]] = []
    for part in checkpoint_parts(store, files, **options):
        for batch in read_files(store, part):
            batch.adds.validate(full=True)
            batch.removes.validate(full=True)
            adds += batch.adds.to_pylist()
            removes += batch.removes.to_pylist()
    return adds, removes


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"write_page_checksum": True, **options})
    return sink.getvalue()


def stored(data: bytes, key: str = KEY) -> MemoryStore:
    store = MemoryStore()
    store.put(key, data)
    return store
