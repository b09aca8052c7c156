"""What each operation changes: the actions of delete, restore, alter and partition overwrites."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TypeAlias

import msgspec

from deltasql.api.detail import check_filter
from deltasql.data.partitions import partition_fields
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    InvalidCommitError,
    SchemaError,
    TableStateError,
    UnsupportedFeatureError,
)
from deltasql.metastore.commit.request import CommitNote
from deltasql.metastore.snapshot.file_list import ACTION_COLUMNS, adds_of, remove_of
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol import features, properties
from deltasql.protocol.actions import Action, Add, Metadata, Protocol, file_key
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.features import has_own_timestamps, release_actions
from deltasql.protocol.predicate import Predicate, columns_of
from deltasql.protocol.predicate.ast import And, Column, InList
from deltasql.protocol.predicate.prune import answers, partition_facts
from deltasql.protocol.properties import (
    FENCE_PROPERTY,
    missing_features,
    without_feature_properties,
)
from deltasql.protocol.schema.columns import (
    check_names,
    find_field,
    leaves,
    mapping_mode,
    physical_name,
    physical_partition_columns,
)
from deltasql.protocol.schema.types import DataType, StructField, StructType, print_schema
from deltasql.protocol.values import Value, parse_partition_value

# What only a commit that changes the protocol or the columns with it may set.
_FIXED_PROPERTIES = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.columnMapping.mode",
    "delta.columnMapping.maxColumnId",
)

_Place: TypeAlias = tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """Ready to commit on the snapshot it was planned on.

    `restores` is an older version whose files come back. Without `is_required`, a plan that
    changes nothing makes no version.
    """

    actions: tuple[Action, ...]
    read: ReadSet
    note: CommitNote
    restores: int | None = None
    is_required: bool = True


def live_adds(snapshot: Snapshot, where: str | Predicate | None = None) -> list[Add]:
    """Return the live files of a snapshot as adds; with a filter, those it may touch."""
    if snapshot.version < snapshot.table.first_version:  # the table is only planned
        return []
    return list(adds_of(snapshot.files(ACTION_COLUMNS, where=where).to_batches()))


def plan_append(snapshot: Snapshot, adds: Sequence[Add], mode: str = "Append") -> Planned:
    """Plan a blind append of files that are already written."""
    note = CommitNote("WRITE", {"mode": mode, **partitioning(snapshot)}, write_metrics(adds))
    return Planned(tuple(adds), ReadSet(snapshot.version), note, is_required=False)


def plan_overwrite(
    snapshot: Snapshot,
    adds: Sequence[Add],
    where: str | None,
    *,
    data_change: bool = True,
    zone: tzinfo = UTC,
    live: Sequence[Add] | None = None,
) -> Planned:
    """Plan to replace all files, or those of the partitions that `where` names.

    `live` are the table's files where they are not those of the snapshot.
    """
    matches = None if where is None else partition_filter(snapshot, where, zone)
    if matches is not None:
        outside = next((add.path for add in adds if not matches(add)), None)
        if outside is not None:
            raise InvalidCommitError(f"The new file {outside} holds rows outside of {where!r}.")
    if live is None:
        live = live_adds(snapshot, None if matches is None else matches.predicate)
    gone = [add for add in live if matches is None or matches(add)]
    parameters = {"mode": "Overwrite", **partitioning(snapshot)}
    if where is not None:
        parameters["predicate"] = msgspec.json.encode([where]).decode()
    metrics = write_metrics(adds) | {"numRemovedFiles": str(len(gone))}
    read = ReadSet(snapshot.version, whole_table=matches is None, matches=matches)
    removes = (remove_of(add, data_change=data_change) for add in gone)
    note = CommitNote("WRITE", parameters, metrics)
    return Planned((*adds, *removes), read, note, is_required=False)


def plan_delete(snapshot: Snapshot, where: str, *, live: Sequence[Add] | None = None) -> Planned:
    """Plan to remove all files of the partitions that `where` names, of `live` if it is given."""
    matches = partition_filter(snapshot, where)
    if live is None:
        live = live_adds(snapshot, matches.predicate)
    gone = [add for add in live if matches(add)]
    parameters = {"predicate": msgspec.json.encode([where]).decode()}
    metrics = {"numRemovedFiles": str(len(gone)), "numRemovedBytes": str(sum(a.size for a in gone))}
    read = ReadSet(snapshot.version, matches=matches)
    note = CommitNote("DELETE", parameters, metrics)
    return Planned(tuple(remove_of(add) for add in gone), read, note, is_required=False)


def plan_compact(snapshot: Snapshot, old: Sequence[Add], new: Sequence[Add]) -> Planned:
    """Plan to put fewer, bigger files in the place of others; no row changes."""
    metrics = {
        "numRemovedFiles": str(len(old)),
        "numAddedFiles": str(len(new)),
        "numRemovedBytes": str(sum(add.size for add in old)),
        "numAddedBytes": str(sum(add.size for add in new)),
    }
    read = ReadSet(snapshot.version, files=frozenset(file_key(add) for add in old))
    actions: tuple[Action, ...] = (*new, *(remove_of(add, data_change=False) for add in old))
    return Planned(actions, read, CommitNote("OPTIMIZE", {"predicate": "[]"}, metrics))


def plan_restore(snapshot: Snapshot, old: Snapshot, parameters: Mapping[str, str]) -> Planned:
    """Plan to bring files and metadata of an older version back, as a new version."""
    now = {file_key(add): add for add in live_adds(snapshot)}
    then = {file_key(add): add for add in live_adds(old)}
    back = [
        msgspec.structs.replace(add, data_change=True)
        for key, add in then.items()
        if key not in now
    ]
    gone = [remove_of(add) for key, add in now.items() if key not in then]
    actions: list[Action] = [*back, *gone]
    if old.metadata != snapshot.metadata:
        actions.append(_restored_metadata(snapshot, old))
    metrics = {
        "numRestoredFiles": str(len(back)),
        "numRemovedFiles": str(len(gone)),
        "restoredFilesSize": str(sum(add.size for add in back)),
        "removedFilesSize": str(sum(remove.size or 0 for remove in gone)),
        "numOfFilesAfterRestore": str(len(then)),
        "tableSizeAfterRestore": str(sum(add.size for add in then.values())),
    }
    read = ReadSet(snapshot.version, whole_table=True)
    note = CommitNote("RESTORE", dict(parameters), metrics)
    return Planned(tuple(actions), read, note, old.version)


def _restored_metadata(snapshot: Snapshot, old: Snapshot) -> Metadata:
    """Keep what a protocol feature of today needs: switches are not turned back by a restore."""
    configuration = dict(old.metadata.configuration)
    configuration.pop(FENCE_PROPERTY, None)
    kept = (
        FENCE_PROPERTY,
        "delta.enable",
        "delta.inCommitTimestamp",
        "delta.columnMapping",
        "delta.rowTracking",
    )
    current = snapshot.metadata.configuration
    configuration |= {key: value for key, value in current.items() if key.startswith(kept)}
    return msgspec.structs.replace(old.metadata, configuration=configuration)


def plan_alter(
    snapshot: Snapshot,
    *,
    add: Sequence[StructField] = (),
    set_properties: Mapping[str, str] | None = None,
    unset: Sequence[str] = (),
    description: str | None = None,
) -> Planned:
    """Plan new columns, properties or a description; the protocol follows what they need."""
    given = dict(set_properties or {})
    properties.check(given)
    metadata = snapshot.metadata
    configuration = {k: v for k, v in metadata.configuration.items() if k not in set(unset)}
    configuration |= given
    _refuse_fixed(metadata.configuration, configuration)
    schema = _with_columns(snapshot, add)
    changed = msgspec.structs.replace(
        metadata,
        configuration=configuration,
        schema_string=print_schema(schema) if add else metadata.schema_string,
        description=metadata.description if description is None else description,
    )
    protocol = _raised(snapshot, changed)
    kept = without_feature_properties(configuration)
    changed = msgspec.structs.replace(changed, configuration=kept)
    actions: list[Action] = [*_if_new(changed, metadata), *_if_new(protocol, snapshot.protocol)]
    if not actions:
        raise BadArgumentError("Nothing would change.")
    note = alter_note(add, set_properties, unset)
    return Planned(tuple(actions), ReadSet(snapshot.version), note)


def plan_detach(snapshot: Snapshot, *, keep_timestamps: bool) -> Planned:
    """Plan the last commit of deltasql: any Delta writer may go on after it.

    In-commit timestamps that deltasql switched on go too, unless they are kept: not every Delta
    writer knows them.
    """
    imported = snapshot.table.properties.get("import_metadata") or {}
    is_ours = has_own_timestamps(snapshot.metadata, imported.get("cut_over_at"))
    actions = release_actions(
        snapshot.protocol, snapshot.metadata, keep_timestamps=keep_timestamps or not is_ours
    )
    note = CommitNote("DETACH", {"catalog": "deltasql"})
    return Planned(actions, ReadSet(snapshot.version, whole_table=True), note)


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """Which files lie in the partitions that a filter names, exactly; SQL prunes by `predicate`."""

    predicate: Predicate

    def __call__(self, add: Add) -> bool:
        """Tell whether a file lies in one of them."""
        return _holds(self.predicate, add)


def partition_filter(snapshot: Snapshot, where: str, zone: tzinfo = UTC) -> PartitionFilter:
    """Return the filter of whole partitions.

    Times that name no zone are those of `zone`.

    Raises:
        BadPredicateError: the filter speaks of columns the table is not partitioned by.
    """
    check_filter(where, is_required=True)
    predicate = snapshot.predicate(where, zone)
    assert predicate is not None  # noqa: S101 (a text always gives one)
    allowed = set(physical_partition_columns(snapshot.metadata))
    other = sorted(
        {".".join(c.path) for c in columns_of(predicate) if c.physical[0] not in allowed}
    )
    if other:
        names = ", ".join(snapshot.metadata.partition_columns) or "none"
        raise BadPredicateError(
            f"Whole files can be chosen by partition columns only ({names}), not by "
            f"{', '.join(other)}.",
            hint="To delete single rows, use Delta Spark through deltasql, or rewrite the table.",
        )
    return PartitionFilter(predicate)


def _holds(predicate: Predicate, add: Add) -> bool:
    values = add.partition_values
    found = answers(predicate, lambda c: partition_facts(c, values.get(c.physical[0])))
    if len(found) != 1:
        raise InvalidCommitError(
            f"The partition values of {add.path} cannot be read as their types, so the filter "
            "cannot decide about it."
        )
    return found == {True}


def write_metrics(adds: Sequence[Add]) -> dict[str, str]:
    """Return Delta's metrics of a write."""
    rows = [_rows(add) for add in adds]
    metrics = {"numFiles": str(len(adds)), "numOutputBytes": str(sum(add.size for add in adds))}
    if all(count is not None for count in rows):
        metrics["numOutputRows"] = str(sum(count or 0 for count in rows))
    return metrics


def _rows(add: Add) -> int | None:
    from deltasql.protocol.stats.parse import parse_stats  # noqa: PLC0415 (small, and only here)

    stats = parse_stats(add.stats)
    return stats.num_records if stats else None


def partitioning(snapshot: Snapshot) -> dict[str, str]:
    """Return what the note of a write tells about the partition columns."""
    columns = msgspec.json.encode(snapshot.metadata.partition_columns).decode()
    return {"partitionBy": columns}


def _with_columns(snapshot: Snapshot, add: Sequence[StructField]) -> StructType:
    schema = snapshot.schema
    if not add:
        return schema
    mode = mapping_mode(snapshot.metadata.configuration)
    if mode != "none":
        raise SchemaError("Columns of a table with column mapping are added by Delta Spark.")
    for field in add:
        if find_field(schema, field.name) is not None:
            raise SchemaError(f"There is a column {field.name} already.", column=field.name)
        if not field.nullable:
            raise SchemaError(f"The new column {field.name} must be nullable: old rows lack it.")
    wider = StructType((*schema.fields, *add))
    check_names(wider, mode, schema)
    return wider


def _if_new(action: Action, before: Action) -> tuple[Action, ...]:
    return () if action == before else (action,)


def _raised(snapshot: Snapshot, metadata: Metadata) -> Protocol:
    missing = missing_features(metadata, features.listed_features(snapshot.protocol))
    unknown = sorted(missing.keys() - features.SWITCHABLE)
    if unknown:
        raise UnsupportedFeatureError(
            f"deltasql cannot switch on {', '.join(unknown)} for {missing[unknown[0]]}.",
            features=tuple(unknown),
        )
    protocol = features.with_features(snapshot.protocol, missing)
    wants_fence = properties.read_bool(metadata.configuration, FENCE_PROPERTY)
    if wants_fence and not features.is_fenced(protocol):
        return features.with_features(protocol, {features.FENCE})
    if not wants_fence and features.is_fenced(protocol):
        return features.without_fence(protocol)
    return protocol


def _refuse_fixed(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for key in _FIXED_PROPERTIES:
        if before.get(key) != after.get(key):
            raise BadArgumentError(f"The property {key} cannot be changed by alter.")


def alter_note(
    add: Sequence[StructField], set_properties: Mapping[str, str] | None, unset: Sequence[str]
) -> CommitNote:
    """Return what the history tells of an alteration."""
    if add:
        columns = [{"column": field.name, "type": field.type.name} for field in add]
        return CommitNote("ADD COLUMNS", {"columns": msgspec.json.encode(columns).decode()})
    if unset and not set_properties:
        keys = msgspec.json.encode(list(unset)).decode()
        return CommitNote("UNSET TBLPROPERTIES", {"properties": keys})
    changed = msgspec.json.encode(dict(set_properties or {})).decode()
    return CommitNote("SET TBLPROPERTIES", {"properties": changed})


def require_active(snapshot: Snapshot) -> None:
    """Refuse early what the commit would refuse later, before any file is written."""
    if snapshot.table.state != "active":
        raise TableStateError(
            f"Table {snapshot.table.full_name} is {snapshot.table.state} and takes no commits.",
            table=snapshot.table.full_name,
        )


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
