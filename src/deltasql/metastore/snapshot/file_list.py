"""The live files of a version, pruned by filters in SQL, as Arrow tables and as actions.

Partition filters are decided by typed values over the few combinations that exist; ranges of
columns go to the statistics index. Both may keep too much and never too little. What SQL kept is
pruned once more by the statistics of each file, unless they could only tell the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.database.port import Database, DbTransaction, SplitQuery
from deltasql.errors import BadArgumentError
from deltasql.metastore.stats_index import (
    MAX_REACHES,
    StatsColumn,
    least_low,
    load_columns,
    number_range,
)
from deltasql.protocol.actions import Add, DeletionVector, Remove, hash_key
from deltasql.protocol.codec import from_json_object
from deltasql.protocol.predicate import (
    IndexRange,
    Predicate,
    columns_of,
    index_ranges,
    may_match,
    parts_without_range,
)
from deltasql.protocol.stats.parse import parse_stats

ACTION_COLUMNS = (
    "path",
    "size",
    "modification_time",
    "partition_values",
    "stats",
    "deletion_vector",
    "tags",
    "base_row_id",
    "default_row_commit_version",
    "clustering_provider",
    "data_change",
    "unknown_fields",
)

_TEXT, _LONG, _BOOL = pa.string(), pa.int64(), pa.bool_()
COLUMNS: dict[str, pa.DataType] = {
    "path": _TEXT,
    "size": _LONG,
    "modification_time": _LONG,
    "partition_values": _TEXT,
    "stats": _TEXT,
    "num_records": _LONG,
    "dv_id": _TEXT,
    "deletion_vector": _TEXT,
    "tags": _TEXT,
    "base_row_id": _LONG,
    "default_row_commit_version": _LONG,
    "clustering_provider": _TEXT,
    "data_change": _BOOL,
    "added_version": _LONG,
    "unknown_fields": _TEXT,
}
DEFAULT_COLUMNS = (
    "path",
    "size",
    "modification_time",
    "partition_values",
    "stats",
    "num_records",
    "dv_id",
    "deletion_vector",
)
_VECTORS = frozenset({"dv_id", "deletion_vector"})

# More combinations than this are filtered after the read; a list of them would be slower.
_MOST_PARTITIONS = 5_000
_FEW_PARTITIONS = 10
_KEYS_AT_ONCE = 10_000


def adds_of(files: Iterable[pa.RecordBatch]) -> Iterator[Add]:
    """Yield the adds of a file list that has all of ACTION_COLUMNS, exactly as committed."""
    for batch in files:
        for row in batch.to_pylist():
            yield _add(row)


def remove_of(add: Add, *, data_change: bool = True) -> Remove:
    """Return the remove that ends an add; its time is stamped by the commit."""
    return Remove(
        path=add.path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def _add(row: dict[str, Any]) -> Add:
    return Add(
        path=row["path"],
        size=row["size"],
        modification_time=row["modification_time"],
        partition_values=msgspec.json.decode(row["partition_values"]),
        data_change=row["data_change"],
        stats=row["stats"],
        tags=_json(row["tags"]),
        deletion_vector=vector_of(row["deletion_vector"]),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=row["clustering_provider"],
        extra=_json(row["unknown_fields"]),
    )


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def vector_of(text: str | None) -> DeletionVector | None:
    """Return a deletion vector from its JSON; fields that we do not know are kept.

    Raises:
        MalformedActionError, msgspec.MsgspecError: it is none.
    """
    if not text:
        return None
    holder = {"path": "-", "dataChange": True, "deletionVector": msgspec.json.decode(text)}
    action = from_json_object({"remove": holder})
    assert isinstance(action, Remove)  # noqa: S101 (it is what was just built)
    return action.deletion_vector


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files of which version, and which columns of them."""

    table_id: str
    version: int
    first_version: int
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    predicate: Predicate | None = None
    partition_columns: frozenset[str] = frozenset()
    has_vectors: bool = True


def list_files(database: Database, query: FileQuery) -> pa.Table:
    """Return the files as one Arrow table.

    Raises:
        BadArgumentError: a column is not one of the file list's.
    """
    for name in query.columns:
        if name not in COLUMNS:
            raise BadArgumentError(f"The file list has no column {name}.", column=name)
    return _with_empty_vectors(_fetch(database, query), query)


def _fetch(database: Database, query: FileQuery) -> pa.Table:
    columns = _stored(query)
    if query.predicate is None:
        return database.fetch_arrow_parallel(_parted(database, query, columns), _schema(columns))
    with database.read() as tx:
        pruning = _plan(tx, query, query.predicate)
    if pruning.is_empty:
        return _schema(columns).empty_table()
    more = () if pruning.is_exact else ("partition_values", "stats")
    wide = tuple(dict.fromkeys((*columns, *more)))
    text, params = _statement(database, query, pruning, wide)
    fetch = database.fetch_arrow_small if pruning.is_narrow else database.arrow
    found = fetch(text, params, _schema(wide))
    if not pruning.is_exact:
        found = _prune(found, query.predicate)
    return found.select(list(columns))


def _parted(database: Database, query: FileQuery, columns: Sequence[str]) -> SplitQuery:
    whole, params = _statement(database, query, _Pruning(), columns)
    part, _ = _statement(database, query, _Pruning(), columns, within="file_id_part")
    return SplitQuery(whole, part, "files_state", params)


def _stored(query: FileQuery) -> tuple[str, ...]:
    """Return the columns to ask SQL for: a table without vectors need not read that it has none."""
    if query.has_vectors:
        return query.columns
    return tuple(name for name in query.columns if name not in _VECTORS) or ("path",)


def _with_empty_vectors(found: pa.Table, query: FileQuery) -> pa.Table:
    if query.has_vectors or not _VECTORS.intersection(query.columns):
        return found.select(list(query.columns))
    empty = {
        "dv_id": pa.repeat(pa.scalar("", _TEXT), found.num_rows),
        "deletion_vector": pa.nulls(found.num_rows, _TEXT),
    }
    arrays = [empty[name] if name in _VECTORS else found.column(name) for name in query.columns]
    return pa.Table.from_arrays(arrays, schema=_schema(query.columns))


def stream_files(database: Database, query: FileQuery) -> Iterator[pa.RecordBatch]:
    """Yield all files in batches of bounded size; for tables too big for one Arrow table."""
    text, params = _statement(database, query, _Pruning(), query.columns)
    return database.arrow_batches(text, params, _schema(query.columns))


def list_named(database: Database, query: FileQuery, keys: Sequence[str]) -> pa.Table:
    """Return the files that have one of these path keys; a file without a vector or with any."""
    parts = [keys[at : at + _KEYS_AT_ONCE] for at in range(0, len(keys), _KEYS_AT_ONCE)]
    found = [_named_files(database, query, part) for part in parts]
    return pa.concat_tables([_schema(query.columns).empty_table(), *found])


def _named_files(database: Database, query: FileQuery, keys: Sequence[str]) -> pa.Table:
    only = database.queries.text("of_keys")
    text = database.queries.text(
        "files_at",
        columns=", ".join(f"f.{name}" for name in query.columns),
        live_filter=only,
        filter=only,
        live_hint="",
    )
    hashes = [hash_key(key, "").hex() for key in keys]
    params = {"table_id": query.table_id, "version": query.version, "keys": hashes}
    return database.fetch_arrow_small(text, params, _schema(query.columns))


@dataclass(frozen=True, slots=True)
class _IndexedRange:
    """A range of a filter and the indexed column it is about, with the reaches of its files."""

    column: StatsColumn
    range: IndexRange
    reaches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Pruning:
    """What SQL is asked; `is_exact` if the statistics of the files it finds say no more."""

    partitions: tuple[str, ...] | None = None
    ranges: tuple[_IndexedRange, ...] = ()
    is_exact: bool = False

    @property
    def is_empty(self) -> bool:
        return self.partitions == ()

    @property
    def is_narrow(self) -> bool:
        """Tell whether few files are likely to be left."""
        few = self.partitions is not None and len(self.partitions) <= _FEW_PARTITIONS
        return few or any(None not in (one.range.low, one.range.high) for one in self.ranges)


def _plan(tx: DbTransaction, query: FileQuery, predicate: Predicate) -> _Pruning:
    ranges = {found.column: found for found in index_ranges(predicate)}
    usable = tuple(
        _IndexedRange(column, ranges[column.name], _reaches(tx, column))
        for column in (load_columns(tx, query.table_id) if ranges else ())
        if column.name in ranges
        and column.covers(query.version)
        and column.kind == ranges[column.name].kind
    )
    rest = parts_without_range(predicate, _decided_columns(query, usable))
    if not _named(predicate) & query.partition_columns:
        return _Pruning(None, usable, is_exact=not rest)
    is_exact = all(_named(part) <= query.partition_columns for part in rest)
    place = {"table_id": query.table_id, "version": query.version}
    texts = [text for (text,) in tx.fetch_all("partitions", **place)]
    kept = [text for text in texts if may_match(predicate, None, msgspec.json.decode(text))]
    if len(kept) == len(texts):
        return _Pruning(None if kept else (), usable, is_exact)
    if len(kept) > _MOST_PARTITIONS:
        return _Pruning(None, usable)
    return _Pruning(tuple(kept), usable, is_exact)


def _decided_columns(query: FileQuery, usable: Sequence[_IndexedRange]) -> set[str]:
    """Return the columns whose bounds SQL compares as well as the statistics could.

    Texts are cut in the index, and files from before a column was indexed have no row there.
    """
    return {
        one.column.name
        for one in usable
        if one.column.kind == "num" and one.column.has_all_files(query.first_version)
    }


def _reaches(tx: DbTransaction, column: StatsColumn) -> tuple[int, ...]:
    if column.kind != "num":
        return ()
    rows = tx.fetch_all("stats_reaches", stats_key=column.stats_key)
    return tuple(int(reach) for (reach,) in rows)


def _named(predicate: Predicate) -> set[str]:
    return {column.physical[0] for column in columns_of(predicate)}


def _statement(
    database: Database,
    query: FileQuery,
    pruning: _Pruning,
    columns: Sequence[str],
    *,
    within: str | None = None,
) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {"table_id": query.table_id, "version": query.version}
    filters = [_range_filter(database, query, each, params) for each in pruning.ranges]
    if pruning.partitions is not None:
        filters.append(database.queries.text("prune_partitions", partitions="partitions"))
        params["partitions"] = list(pruning.partitions)
    if within is not None:
        filters.append(database.queries.text(within))
    condition = " ".join(filters)
    text = database.queries.text(
        "files_at",
        columns=", ".join(f"f.{name}" for name in columns),
        live_filter=condition,
        filter=condition,
        live_hint=_hint(query, pruning),
    )
    return text, params


def _hint(query: FileQuery, pruning: _Pruning) -> str:
    """Tell SQLite's planner, which has no statistics, which way in is the narrow one."""
    if any(one.column.has_all_files(query.first_version) for one in pruning.ranges):
        return "not indexed"
    return "indexed by dl_files_partition" if pruning.partitions is not None else ""


def _range_filter(
    database: Database, query: FileQuery, indexed: _IndexedRange, params: dict[str, Any]
) -> str:
    column = indexed.column
    is_number = column.kind == "num"
    overlapping = (_overlapping_numbers if is_number else _overlapping_texts)(
        database, indexed, params
    )
    chosen = database.queries.text("chosen_files", chosen=overlapping)
    if column.has_all_files(query.first_version):
        return f"and {chosen}"
    # Files from before the column was indexed have no row there and must stay.
    return f"and (f.added_version < {column.since_version} or {chosen})"


def _overlapping_numbers(database: Database, indexed: _IndexedRange, params: dict[str, Any]) -> str:
    key = str(indexed.column.stats_key)
    names = {"stats_key": key, "low": f"low_{key}", "high": f"high_{key}"}
    low, high = number_range(_number(indexed.range.low), _number(indexed.range.high))
    params[names["low"]], params[names["high"]] = low, high
    if not 0 < len(indexed.reaches) <= MAX_REACHES:
        return database.queries.text("prune_num", **names)
    pieces = []
    for number, reach in enumerate(indexed.reaches):
        least = f"least_{key}_{number}"
        params[least] = least_low(reach, low)
        pieces.append(database.queries.text("prune_reach", **names, reach=str(reach), least=least))
    return "\nunion all\n".join(pieces)


def _overlapping_texts(database: Database, indexed: _IndexedRange, params: dict[str, Any]) -> str:
    key = str(indexed.column.stats_key)
    names = {"stats_key": key, "low": f"low_{key}", "high": f"high_{key}"}
    params[names["low"]] = indexed.range.low or ""
    if indexed.range.high is None:
        return database.queries.text("prune_text_from", **names)
    params[names["high"]] = indexed.range.high
    return database.queries.text("prune_text", **names)


def _number(value: float | str | None) -> float | None:
    return value if isinstance(value, int | float) else None


def _prune(found: pa.Table, predicate: Predicate) -> pa.Table:
    texts = found.column("partition_values").to_pylist()
    values = {text: msgspec.json.decode(text) for text in set(texts)}
    stats = found.column("stats").to_pylist()
    keep = [
        may_match(predicate, parse_stats(stat), values[text])
        for text, stat in zip(texts, stats, strict=True)
    ]
    return found if all(keep) else found.filter(pa.array(keep, pa.bool_()))


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, COLUMNS.get(name, _TEXT)) for name in columns])
