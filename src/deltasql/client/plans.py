"""What an operation would commit, planned on one snapshot: actions, read set, note."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

import msgspec

from deltasql.catalog.commit_request import CommitNote
from deltasql.catalog.file_actions import ACTION_COLUMNS, adds_of, remove_of
from deltasql.catalog.snapshots import Snapshot
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    InvalidCommitError,
    SchemaError,
    TableStateError,
)
from deltasql.protocol import features, properties
from deltasql.protocol.actions import Action, Add, Metadata, Protocol
from deltasql.protocol.columns import check_names, find_field, mapping_mode
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.identity import file_key
from deltasql.protocol.partitioning import physical_partition_columns
from deltasql.protocol.predicate import Predicate, columns_of
from deltasql.protocol.predicate_match import answers, partition_facts
from deltasql.protocol.schema import StructField, StructType, print_schema


@dataclass(frozen=True, slots=True)
class Planned:
    """Ready to commit on the snapshot it was planned on.

    `restores` is an older version whose files come back.
    """

    actions: tuple[Action, ...]
    read: ReadSet
    note: CommitNote
    restores: int | None = None


def live_adds(snapshot: Snapshot, where: str | None = None) -> list[Add]:
    """Return the live files of a snapshot as adds; with a filter, those it may touch."""
    if snapshot.version < snapshot.table.first_version:  # the table is only planned
        return []
    return list(adds_of(snapshot.files(ACTION_COLUMNS, where=where).to_batches()))


def plan_append(snapshot: Snapshot, adds: Sequence[Add], mode: str = "Append") -> Planned:
    """Plan a blind append of files that are already written."""
    note = CommitNote("WRITE", {"mode": mode, **partitioning(snapshot)}, write_metrics(adds))
    return Planned(tuple(adds), ReadSet(snapshot.version), note)


def plan_overwrite(
    snapshot: Snapshot,
    adds: Sequence[Add],
    where: str | None,
    *,
    data_change: bool = True,
    zone: tzinfo = UTC,
) -> Planned:
    """Plan to replace all files, or those of the partitions that `where` names."""
    matches = None if where is None else partition_filter(snapshot, where, zone)
    if matches is not None:
        outside = next((add.path for add in adds if not matches(add)), None)
        if outside is not None:
            raise InvalidCommitError(f"The new file {outside} holds rows outside of {where!r}.")
    gone = [add for add in live_adds(snapshot) if matches is None or matches(add)]
    parameters = {"mode": "Overwrite", **partitioning(snapshot)}
    if where is not None:
        parameters["predicate"] = msgspec.json.encode([where]).decode()
    metrics = write_metrics(adds) | {"numRemovedFiles": str(len(gone))}
    read = ReadSet(snapshot.version, whole_table=matches is None, matches=matches)
    removes = (remove_of(add, data_change=data_change) for add in gone)
    return Planned((*adds, *removes), read, CommitNote("WRITE", parameters, metrics))


def plan_delete(snapshot: Snapshot, where: str) -> Planned:
    """Plan to remove all files of the partitions that `where` names."""
    matches = partition_filter(snapshot, where)
    gone = [add for add in live_adds(snapshot) if matches(add)]
    parameters = {"predicate": msgspec.json.encode([where]).decode()}
    metrics = {"numRemovedFiles": str(len(gone)), "numRemovedBytes": str(sum(a.size for a in gone))}
    read = ReadSet(snapshot.version, matches=matches)
    note = CommitNote("DELETE", parameters, metrics)
    return Planned(tuple(remove_of(add) for add in gone), read, note)


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
    kept = (
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
    properties.check(dict(set_properties or {}))
    metadata = snapshot.metadata
    configuration = {k: v for k, v in metadata.configuration.items() if k not in set(unset)}
    configuration |= dict(set_properties or {})
    _refuse_fixed(metadata.configuration, configuration)
    schema = _with_columns(snapshot, add)
    changed = msgspec.structs.replace(
        metadata,
        configuration=configuration,
        schema_string=print_schema(schema) if add else metadata.schema_string,
        description=metadata.description if description is None else description,
    )
    if changed == metadata:
        raise BadArgumentError("Nothing would change.")
    actions: list[Action] = [changed]
    protocol = _raised(snapshot, changed, schema)
    if protocol != snapshot.protocol:
        actions.append(protocol)
    note = _alter_note(add, set_properties, unset)
    return Planned(tuple(actions), ReadSet(snapshot.version), note)


def plan_detach(snapshot: Snapshot) -> Planned:
    """Plan the last commit of deltasql: without the fence, any Delta writer may go on."""
    if features.is_fenced(snapshot.protocol):
        action: tuple[Action, ...] = (features.without_fence(snapshot.protocol),)
    else:
        action = ()
    note = CommitNote("DETACH", {"catalog": "deltasql"})
    return Planned(action, ReadSet(snapshot.version, whole_table=True), note)


def partition_filter(snapshot: Snapshot, where: str, zone: tzinfo = UTC) -> Callable[[Add], bool]:
    """Return which files lie in the partitions that a filter names, exactly.

    Times that name no zone are those of `zone`.

    Raises:
        BadPredicateError: the filter speaks of columns the table is not partitioned by.
    """
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
    return lambda add: _holds(predicate, add)


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
    from deltasql.protocol.stats import parse_stats  # noqa: PLC0415 (small, and only here)

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
    check_names(wider, mode)
    return wider


def _raised(snapshot: Snapshot, metadata: Metadata, schema: StructType) -> Protocol:
    needed = features.enabled_by(metadata.configuration) | needed_features(schema)
    unknown = needed - features.SWITCHABLE
    if unknown:
        raise BadArgumentError(f"deltasql cannot switch on: {', '.join(sorted(unknown))}.")
    protocol = features.with_features(snapshot.protocol, needed)
    wants_fence = properties.read_bool(metadata.configuration, properties.FENCE_PROPERTY)
    if wants_fence and not features.is_fenced(protocol):
        return features.with_features(protocol, {features.FENCE})
    if not wants_fence and features.is_fenced(protocol):
        return features.without_fence(protocol)
    return protocol


def needed_features(schema: StructType) -> set[str]:
    """Return the features that a schema's types ask for."""
    text = print_schema(schema)
    return {"timestampNtz"} if '"timestamp_ntz"' in text else set()


def _refuse_fixed(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for key in ("delta.enableInCommitTimestamps", "delta.columnMapping.mode"):
        if before.get(key) != after.get(key):
            raise BadArgumentError(f"The property {key} cannot be changed by alter.")


def _alter_note(
    add: Sequence[StructField], set_properties: Mapping[str, str] | None, unset: Sequence[str]
) -> CommitNote:
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
