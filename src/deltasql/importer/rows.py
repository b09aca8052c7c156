"""Pure: folded file actions as the columns that a bulk load takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import ADD_SCHEMA, ENDING_SCHEMA, FILE_SCHEMA
from deltasql.errors import MalformedActionError
from deltasql.importer.fold import Fold
from deltasql.protocol.actions import Add, DeletionVector, Remove
from deltasql.protocol.codec import dump_values
from deltasql.protocol.identity import file_hashes
from deltasql.protocol.stats import parse_stats

_ENDED = FILE_SCHEMA.get_field_index("removed_version")
_MOST_RECORDS = 2**63
_FIRST = r'^\{"numRecords":(?P<count>0|[1-9][0-9]{0,17})[,}]'


class _Counted(msgspec.Struct, gc=False):
    numRecords: int | None = None  # noqa: N815 (as the statistics spell it)


_COUNTED = msgspec.json.Decoder(_Counted)


def file_rows(fold: Fold) -> pa.Table:
    """Return the files that began in the window, and tombstones of files that never did."""
    count = len(fold.adds)
    ended: list[list[Any]] = [[None] * count for _ in range(5)]
    for number, (version, remove) in fold.ends.items():
        for column, value in zip(ended, _ended(version, remove), strict=True):
            column[number] = value
    schema = FILE_SCHEMA
    columns = [*_add_arrays(fold.adds), pa.array(fold.births, pa.int64())]
    columns += [pa.array(v, schema.field(_ENDED + i).type) for i, v in enumerate(ended)]
    columns.append(pa.array(fold.is_first, pa.bool_()))
    began = pa.Table.from_arrays(columns, schema=schema)
    if not fold.tombstones:
        return began
    return pa.concat_tables([began, _tombstones(fold.tombstones)])


def ending_rows(fold: Fold) -> pa.Table:
    """Return what ends files of earlier windows."""
    removes = [remove for _, remove in fold.endings]
    arrays = [range(len(removes)), *_remove_columns(removes)]
    ends = [_ended(version, remove) for version, remove in fold.endings]
    arrays += [[end[i] for end in ends] for i in range(5)]
    typed = [pa.array(a, f.type) for a, f in zip(arrays, ENDING_SCHEMA, strict=True)]
    return pa.Table.from_arrays(typed, schema=ENDING_SCHEMA)


def check_files(rows: pa.Table, version_column: str) -> None:
    """Refuse what no database keeps or no reader can use; see `protocol.validate`.

    Raises:
        MalformedActionError: names the version and the path.
    """
    for name in ("path", "stats", "clustering_provider", "dv_id"):
        if name in rows.column_names:
            _refuse_any(
                rows, pc.match_substring(rows[name], "\0"), version_column, f"a NUL in its {name}"
            )
    _refuse_any(rows, pc.equal(rows["path"], ""), version_column, "an empty path")
    _refuse_any(rows, pc.less(rows["size"], 0), version_column, "a negative size")


def _refuse_any(rows: pa.Table, bad: pa.ChunkedArray, version_column: str, what: str) -> None:
    found = pc.index(bad, value=True).as_py()
    if found >= 0:
        version, path = rows[version_column][found].as_py(), rows["path"][found].as_py()
        raise MalformedActionError(
            f"Version {version} has a file with {what}: {path!r:.200}.", version=version, path=path
        )


def _ended(version: int, remove: Remove | None) -> tuple[Any, ...]:
    if remove is None:
        return version, "replaced", None, None, None
    return (
        version,
        "remove",
        remove.deletion_timestamp,
        remove.data_change,
        remove.extended_file_metadata,
    )


def _tombstones(removes: Sequence[tuple[int, Remove]]) -> pa.Table:
    names = ENDING_SCHEMA.names[1:8]
    columns = dict(zip(names, _remove_columns([r for _, r in removes]), strict=True))
    ends = [_ended(version, remove) for version, remove in removes]
    for place, name in enumerate(FILE_SCHEMA.names[_ENDED : _ENDED + 5]):
        columns[name] = [end[place] for end in ends]
    columns["is_first"] = [False] * len(removes)
    nothing = [None] * len(removes)
    arrays = [pa.array(columns.get(f.name, nothing), f.type) for f in FILE_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=FILE_SCHEMA)


def _remove_columns(removes: Sequence[Remove]) -> list[list[Any]]:
    partitions = _Texts()
    return [
        [one.path for one in removes],
        *_hashes(removes),
        [one.dv_id for one in removes],
        [one.size for one in removes],
        [partitions.of(one.partition_values) for one in removes],
        [_vector(one.deletion_vector) for one in removes],
    ]


def _add_arrays(adds: Sequence[Add]) -> list[pa.Array]:
    partition = _Texts().of
    columns: list[list[Any]] = [
        [add.path for add in adds],
        *_hashes(adds),
        ["" if add.deletion_vector is None else add.deletion_vector.id for add in adds],
        [add.size for add in adds],
        [add.modification_time for add in adds],
        [partition(add.partition_values) for add in adds],
        [add.stats for add in adds],
        [None if add.tags is None else dump_values(add.tags) for add in adds],
        [None if add.deletion_vector is None else _vector(add.deletion_vector) for add in adds],
        [add.base_row_id for add in adds],
        [add.default_row_commit_version for add in adds],
        [add.clustering_provider for add in adds],
        [add.data_change for add in adds],
        [None if add.extra is None else dump_values(add.extra) for add in adds],
    ]
    fields = [field for field in ADD_SCHEMA if field.name != "num_records"]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, fields, strict=True)]
    place = ADD_SCHEMA.get_field_index("num_records")
    arrays.insert(place, _counts(arrays[ADD_SCHEMA.get_field_index("stats")]))
    return arrays


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


def _hashes(files: Sequence[Add | Remove]) -> tuple[list[bytes], list[bytes | None]]:
    found = [file_hashes(one.path, one.dv_id) for one in files]
    return [key for key, _ in found], [path_hash for _, path_hash in found]


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


def _vector(vector: DeletionVector | None) -> str | None:
    if vector is None:
        return None
    plain = msgspec.to_builtins(vector)
    plain.update(plain.pop("~extra", None) or {})
    return dump_values(plain)
