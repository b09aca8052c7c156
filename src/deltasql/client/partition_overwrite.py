"""A dynamic overwrite: new files replace the partitions that they touch, and no others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, tzinfo
from typing import TypeAlias

from deltasql.catalog.commit_request import CommitNote
from deltasql.catalog.file_actions import remove_of
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.plans import Planned, live_adds, partitioning, write_metrics
from deltasql.data.partitions import partition_fields
from deltasql.protocol.actions import Add
from deltasql.protocol.columns import leaves, mapping_mode, physical_name
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.predicate_ast import And, Column, InList, Predicate
from deltasql.protocol.schema import DataType
from deltasql.protocol.values import Value, parse_partition_value

_Place: TypeAlias = tuple[Value | None, ...]


def plan_partition_overwrite(
    snapshot: Snapshot, adds: Sequence[Add], *, data_change: bool = True, zone: tzinfo = UTC
) -> Planned:
    """Plan to replace the files of every partition that has a new one.

    Partitions are compared by their values, not by their spelling; times that name no zone are
    those of `zone`. A table without partition columns is one partition.
    """
    columns = _columns(snapshot)
    touched = {_place(add, columns, zone) for add in adds} if columns else {()}

    def matches(add: Add) -> bool:
        return _place(add, columns, zone) in touched

    gone = [add for add in live_adds(snapshot, _around(snapshot, touched, zone)) if matches(add)]
    parameters = {
        "mode": "Overwrite",
        "isDynamicPartitionOverwrite": "true",
        **partitioning(snapshot),
    }
    metrics = write_metrics(adds) | {"numRemovedFiles": str(len(gone))}
    read = ReadSet(snapshot.version, whole_table=not columns, matches=matches)
    removes = (remove_of(add, data_change=data_change) for add in gone)
    return Planned((*adds, *removes), read, CommitNote("WRITE", parameters, metrics))


def _around(snapshot: Snapshot, touched: Collection[_Place], zone: tzinfo) -> Predicate | None:
    """Return a filter that holds in all these partitions, and in few others, for SQL to prune by.

    A column among whose values is a null or one that is not of its type is left out.
    """
    mode = mapping_mode(snapshot.metadata.configuration)
    by_name = {leaf.path: Column.of(leaf, zone) for leaf in leaves(snapshot.schema, mode)}
    parts: list[Predicate] = []
    for number, name in enumerate(snapshot.metadata.partition_columns):
        column = by_name[(name,)]
        values = {place[number] for place in touched}
        known = {value for value in values if value is not None and _is_of(column, value)}
        if len(known) == len(values):
            parts.append(InList(column, tuple(known)))
    return And(tuple(parts)) if parts else None


def _is_of(column: Column, value: Value) -> bool:
    """Tell whether a value is one of its column's, and not a text that stands for itself."""
    return not isinstance(value, str) or column.type.name == "string"


def _columns(snapshot: Snapshot) -> list[tuple[str, DataType]]:
    metadata = snapshot.metadata
    mode = mapping_mode(metadata.configuration)
    fields = partition_fields(snapshot.schema, metadata.partition_columns)
    return [(physical_name(field, mode), field.type) for field in fields]


def _place(add: Add, columns: Sequence[tuple[str, DataType]], zone: tzinfo) -> _Place:
    return tuple(_value(add.partition_values.get(name), kind, zone) for name, kind in columns)


def _value(text: str | None, kind: DataType, zone: tzinfo) -> Value | None:
    """Return a value that is equal for all its spellings; a text that is none stands for itself."""
    if not text:
        return None
    value = parse_partition_value(text, kind, zone)
    if value is None or value != value:  # noqa: PLR0124 (NaN is its own partition)
        return text
    return value
