"""Create a table: its definition, its folder and its first commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.api.session import Session
from deltasql.crash import crash_point
from deltasql.errors import (
    BadArgumentError,
    CommitUnknownError,
    DeltaSqlError,
    OwnershipError,
    SchemaError,
    TableExistsError,
    UnsafeStoreError,
    UnsupportedFeatureError,
)
from deltasql.log.owner_marker import OWNER_KEY, Owner, read_owner, release, reserve
from deltasql.metastore.commit.request import CommitNote, CommitRequest
from deltasql.metastore.registry import NAME_TAKEN, check_name
from deltasql.metastore.snapshot.definition import TableDefinition
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import NewTable, TableRow, TableState, split_name
from deltasql.protocol import features, properties
from deltasql.protocol.actions import Format, Metadata, Protocol
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.log_names import LOG_FOLDER, LogFile
from deltasql.protocol.properties import without_feature_properties
from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.schema.columns import check_names, find_field
from deltasql.protocol.schema.types import (
    ArrayType,
    MapType,
    StructType,
    parse_schema,
    print_schema,
)
from deltasql.runtime.ownership import is_leftover
from deltasql.storage.conditional_put import StoreVerdict, check_conditional_put
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import location_key

# The version before the first.
_NONE = -1

# SQL gives a table its key.
_NO_KEY = 0


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a table is to be."""

    name: str
    location: str
    schema: Any
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None


def first_actions(spec: TableSpec, metadata_id: str, now_ms: int) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a new table.

    Raises:
        SchemaError, BadArgumentError, UnsupportedFeatureError: the table cannot be made.
    """
    schema = to_schema(spec.schema)
    check_names(schema)
    _check_partitioning(schema, spec.partition_by)
    given = dict(spec.properties)
    properties.check(given)
    asked = Metadata(
        id=metadata_id,
        name=spec.name,
        description=spec.description,
        format=Format(),
        schema_string=print_schema(schema),
        partition_columns=list(spec.partition_by),
        configuration={"delta.enableInCommitTimestamps": "true", **given},
        created_time=now_ms,
    )
    protocol = features.new_table_protocol(asked)
    _refuse(protocol)
    kept = without_feature_properties(asked.configuration)
    return protocol, msgspec.structs.replace(asked, configuration=kept)


def creation_note(metadata: Metadata) -> CommitNote:
    """Return the note of a table's first commit, in Delta's words."""
    parameters = {
        "partitionBy": msgspec.json.encode(metadata.partition_columns).decode(),
        "description": metadata.description or "",
        "isManaged": "false",
        "properties": msgspec.json.encode(metadata.configuration).decode(),
    }
    return CommitNote("CREATE TABLE", parameters)


def to_schema(given: Any) -> StructType:
    """Return a Delta schema from one, from its JSON, or from anything with an Arrow schema.

    Raises:
        SchemaError: there is no schema in it, or a type that Delta lacks.
    """
    if isinstance(given, StructType):
        schema = given
    elif isinstance(given, str):
        schema = parse_schema(given)
    elif isinstance(given, pa.Schema):
        schema = from_arrow_schema(given)
    elif hasattr(given, "__arrow_c_schema__"):
        schema = from_arrow_schema(pa.schema(given))
    elif hasattr(given, "schema") and isinstance(given.schema, pa.Schema):
        schema = from_arrow_schema(given.schema)
    else:
        raise SchemaError(f"A {type(given).__name__} holds no schema.")
    if not schema.fields:
        raise SchemaError("A table needs at least one column.")
    return schema


def check_place(store: ObjectStore, roll: str, is_left: Callable[[Owner], bool]) -> None:
    """Refuse a location that holds a Delta log, or a store that would let commits be lost.

    A marker that `is_left` by a create that failed is no log.

    Raises:
        TableExistsError, UnsafeStoreError: says which.
    """
    for info in store.list_from(LOG_FOLDER):
        name = info.key.removeprefix(LOG_FOLDER)
        owner = read_owner(store) if info.key == OWNER_KEY else None
        if LogFile.parse(name) is not None or (owner is not None and not is_left(owner)):
            raise TableExistsError(
                f"There is a Delta log at {store.uri} already ({info.key}).",
                hint="Choose an empty location, or import the table.",
            )
    if check_conditional_put(store, roll) is StoreVerdict.IGNORES:
        raise UnsafeStoreError(
            f"The store of {store.uri} ignores conditions: a commit of another writer could be "
            "overwritten unseen."
        )


def _check_partitioning(schema: StructType, names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) != len(names):
        raise BadArgumentError("A partition column is named twice.")
    for name in names:
        found = find_field(schema, name)
        if found is None or found.name != name:
            raise SchemaError(f"There is no column {name} to partition by.", column=name)
        if isinstance(found.type, StructType | ArrayType | MapType) or found.type.name == "binary":
            raise SchemaError(f"The column {name} of type {found.type.name} cannot partition.")
    if len(names) == len(schema.fields):
        raise SchemaError("At least one column must not be a partition column.")


def _refuse(protocol: Protocol) -> None:
    wanted = features.listed_features(protocol) - features.CREATABLE
    if wanted:
        raise UnsupportedFeatureError(
            f"deltasql does not create tables with: {', '.join(sorted(wanted))}.",
            features=tuple(sorted(wanted)),
        )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """What the first commit of a table makes of it."""

    row: TableRow
    protocol: Protocol
    metadata: Metadata

    def snapshot(self, session: Session) -> Snapshot:
        """Return the table as it is before its first version: empty."""
        definition = TableDefinition(self.protocol, self.metadata, ())
        return Snapshot(session.connection.metastore.database, self.row, _NONE, 0, definition)


def plan_table(session: Session, spec: TableSpec) -> PlannedTable:
    """Return the table that a commit may create, its name and its place checked.

    Raises:
        TableExistsError: the name or the location is taken.
        SchemaError, BadArgumentError, UnsupportedFeatureError: the table cannot be made.
    """
    namespace, name = split_name(spec.name)
    check_name(namespace, name)
    table_id, now = session.connection.new_id(), session.connection.now_ms()
    row = TableRow(
        _NO_KEY,
        table_id,
        namespace,
        name,
        spec.location,
        location_key(spec.location),
        created_at=now,
        current_version=_NONE,
        last_ict=0,
        metadata_version=_NONE,
        protocol_version=_NONE,
        state=TableState.ACTIVE,
        first_version=0,
        mirrored_through=_NONE,
        log_floor=0,
        properties={},
    )
    planned = PlannedTable(row, *first_actions(spec, table_id, now))
    _check_neighbours(session, row)
    _check_place(session, row)
    return planned


def create_empty(session: Session, planned: PlannedTable) -> int:
    """Create a table without rows and return its first version."""
    note = creation_note(planned.metadata)
    note = replace(
        note, committer=session.connection.user.name, client=session.connection.user.client
    )
    request = CommitRequest(
        planned.row.table_id, (), ReadSet(_NONE), note, session.connection.new_id()
    )
    return create_with(session, planned, request)


def create_with(session: Session, planned: PlannedTable, request: CommitRequest) -> int:
    """Create a table together with what is asked for, as its first version.

    The owner marker is there before SQL has the table, so that no other catalog gets the location.

    Raises:
        TableExistsError: the name or the location was taken meanwhile.
    """
    row = planned.row
    new = NewTable(row.table_id, row.namespace, row.name, row.location, row.location_key)
    first = (planned.protocol, planned.metadata, *request.actions)
    whole = replace(request, actions=first, known=None)
    started, mirroring = time.monotonic(), session.mirroring
    crash_point("before-place-taken")
    _reserve(session, row)
    try:
        done = session.connection.metastore.create(new, whole)
    except CommitUnknownError:
        raise  # the table may be there
    except DeltaSqlError:
        _release(session, row)
        raise
    crash_point("before-marker-settled")
    _settle(session, row)
    session.after_commit([whole], [done], started, mirroring)
    return done.version


def recheck(session: Session, planned: PlannedTable) -> None:
    """Look once more before a commit that comes long after the plan.

    Raises:
        TableExistsError: the name or the location was taken meanwhile.
    """
    _check_neighbours(session, planned.row)
    _check_place(session, planned.row)


def _check_place(session: Session, row: TableRow) -> None:
    store = session.connection.store_at(row.location)
    check_place(
        store, session.connection.new_id(), partial(is_leftover, session.connection.metastore)
    )


def _reserve(session: Session, row: TableRow) -> None:
    """Keep other catalogs away from the location before SQL has the table.

    Raises:
        TableExistsError: another catalog has the location, or another table of this one.
    """
    identity, store = (
        session.connection.metastore.identity,
        session.connection.store_at(row.location),
    )
    owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
    try:
        reserve(store, owner, partial(is_leftover, session.connection.metastore))
    except OwnershipError as error:
        raise TableExistsError(
            f"The location {row.location} is taken: {error.message}",
            hint="Choose an empty location, or import the table.",
        ) from error
    crash_point("after-place-taken")


def _settle(session: Session, row: TableRow) -> None:
    """Let the marker name the table that SQL has now.

    Nothing here may fail a create that was made: what is wrong is found by the table's next
    commit, or by the mirror.
    """
    with suppress(DeltaSqlError):
        session.connection.ownership.ensure(row, session.connection.store_at(row.location))


def _release(session: Session, row: TableRow) -> None:
    """Take the marker of a table away that was not made.

    Where another create of this catalog has won the location, the marker is left to it.
    """
    with suppress(DeltaSqlError):
        if session.connection.metastore.table_at(row.location_key) is None:
            store, identity = (
                session.connection.store_at(row.location),
                session.connection.metastore.identity,
            )
            release(store, identity.catalog_id, row.table_id)


def _check_neighbours(session: Session, new: TableRow) -> None:
    """Refuse a name that is taken, and a place inside of another table or around it."""
    for row in session.connection.metastore.tables_around(new):
        if row.full_name == new.full_name:
            raise TableExistsError(
                f"There is a table {new.full_name!r} already.",
                hint=NAME_TAKEN,
                table=new.full_name,
            )
        raise TableExistsError(
            f"The location {new.location} and that of table {row.full_name} lie in each other.",
            hint="Choose a location outside of the other table.",
            table=row.full_name,
        )
