"""Pure: file actions as the columns that a bulk load takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import MalformedActionError
from deltasql.imports.load.window import ADD_SCHEMA, REMOVE_SCHEMA
from deltasql.protocol.actions import Add, DeletionVector, Remove, hash_paths
from deltasql.protocol.codec import dump_values
from deltasql.protocol.stats.parse import parse_stats

_MOST_RECORDS = 2**63
_FIRST = r'^\{"numRecords":(?P<count>0|[1-9][0-9]{0,17})[,}]'


class _Counted(msgspec.Struct, gc=False):
    numRecords: int | None = None  # noqa: N815 (as the statistics spell it)


_COUNTED = msgspec.json.Decoder(_Counted)


def add_rows(adds: Sequence[Add], keys: Sequence[bytes], versions: Sequence[int]) -> pa.Table:
    """Return adds with their file keys and versions."""
    partition = _Texts().of
    stats = pa.array([add.stats for add in adds], pa.string())
    columns: dict[str, Any] = {
        "path": [add.path for add in adds],
        "file_key": keys,
        "path_hash": hash_paths(adds),
        "dv_id": ["" if add.deletion_vector is None else add.deletion_vector.id for add in adds],
        "size": [add.size for add in adds],
        "modification_time": [add.modification_time for add in adds],
        "partition_values": [partition(add.partition_values) for add in adds],
        "stats": stats,
        "num_records": _counts(stats),
        "tags": [None if add.tags is None else dump_values(add.tags) for add in adds],
        "deletion_vector": _vectors(adds),
        "base_row_id": [add.base_row_id for add in adds],
        "default_row_commit_version": [add.default_row_commit_version for add in adds],
        "clustering_provider": [add.clustering_provider for add in adds],
        "data_change": [add.data_change for add in adds],
        "unknown_fields": [None if add.extra is None else dump_values(add.extra) for add in adds],
        "added_version": versions,
    }
    return pa.table(columns, schema=ADD_SCHEMA)


def remove_rows(
    removes: Sequence[Remove], keys: Sequence[bytes], versions: Sequence[int]
) -> pa.Table:
    """Return removes with their file keys and versions."""
    partition = _Texts().of
    columns: dict[str, Any] = {
        "path": [remove.path for remove in removes],
        "file_key": keys,
        "path_hash": hash_paths(removes),
        "dv_id": [remove.dv_id for remove in removes],
        "size": [remove.size for remove in removes],
        "partition_values": [partition(remove.partition_values) for remove in removes],
        "deletion_vector": _vectors(removes),
        "base_row_id": [remove.base_row_id for remove in removes],
        "default_row_commit_version": [remove.default_row_commit_version for remove in removes],
        "removed_version": versions,
        "deletion_timestamp": [remove.deletion_timestamp for remove in removes],
        "remove_data_change": [remove.data_change for remove in removes],
        "extended_file_metadata": [remove.extended_file_metadata for remove in removes],
    }
    return pa.table(columns, schema=REMOVE_SCHEMA)


def check_files(rows: pa.Table, version_column: str) -> None:
    """Refuse what no database keeps or no reader can use; see `protocol.validate`.

    Raises:
        MalformedActionError: names the version and the path.
    """
    for name in ("path", "stats", "clustering_provider", "dv_id"):
        if name in rows.column_names and _may_have_nul(rows[name]):
            found = pc.match_substring(rows[name], "\0")
            _refuse_any(rows, found, version_column, f"a NUL in its {name}")
    _refuse_any(rows, pc.equal(rows["path"], ""), version_column, "an empty path")
    _refuse_any(rows, pc.less(rows["size"], 0), version_column, "a negative size")


def _may_have_nul(texts: pa.ChunkedArray) -> bool:
    """Tell whether a NUL is among all bytes of the texts, which takes no look at each text."""
    buffers = (chunk.buffers()[2] for chunk in texts.chunks)
    return not all(np.frombuffer(data, np.uint8).all() for data in buffers if data is not None)


def _refuse_any(rows: pa.Table, bad: pa.ChunkedArray, version_column: str, what: str) -> None:
    found = pc.index(bad, value=True).as_py()
    if found >= 0:
        version, path = rows[version_column][found].as_py(), rows["path"][found].as_py()
        raise MalformedActionError(
            f"Version {version} has a file with {what}: {path!r:.200}.", version=version, path=path
        )


class _Texts:
    """Maps as canonical JSON; tables have far fewer partitions than files."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str | None], ...], str] = {}

    def of(self, values: dict[str, str | None] | None) -> str | None:
        if values is None:
            return None
        key = tuple(values.items())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = dump_values(values)
        return found


def _vectors(files: Sequence[Add] | Sequence[Remove]) -> list[str | None]:
    return [
        None if file.deletion_vector is None else _vector(file.deletion_vector) for file in files
    ]


def _counts(stats: pa.Array) -> pa.Array:
    """Return how many rows each file has; what most writers write takes a short way."""
    found = pc.struct_field(pc.extract_regex(stats, _FIRST), "count").cast(pa.int64())
    usual = pc.and_(pc.is_valid(found), pc.ends_with(stats, "}"))
    odd = pc.and_(pc.is_valid(stats), pc.invert(pc.fill_null(usual, False)))
    if not pc.any(odd).as_py():
        return found
    counts = [_count(text) for text in stats.filter(odd).to_pylist()]
    return pc.replace_with_mask(found, odd, pa.array(counts, pa.int64()))


def _count(stats: str) -> int | None:
    try:
        count = _COUNTED.decode(stats).numRecords
    except (msgspec.MsgspecError, ValueError, RecursionError):
        count = -1
    if count is None or 0 <= count < _MOST_RECORDS:
        return count
    found = parse_stats(stats)
    return found.num_records if found else None


def _vector(vector: DeletionVector) -> str:
    plain = msgspec.to_builtins(vector)
    plain.update(plain.pop("~extra", None) or {})
    return dump_values(plain)
