"""A table that is not there yet: planned, perhaps filled, and made by one commit."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from deltasql.catalog.catalog import NAME_TAKEN, check_name
from deltasql.catalog.commit_request import CommitRequest
from deltasql.catalog.definitions import TableDefinition
from deltasql.catalog.registry import NewTable
from deltasql.catalog.rows import TableRow, TableState, split_name
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.creation import TableSpec, check_place, creation_note, first_actions
from deltasql.client.session import Session
from deltasql.crash import crash_point
from deltasql.errors import (
    CommitUnknownError,
    DeltaSqlError,
    OwnershipError,
    TableExistsError,
)
from deltasql.log.owner import Owner, release, reserve
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.conflicts import ReadSet
from deltasql.runtime.ownership import is_leftover
from deltasql.storage.resolve import location_key

# The version before the first.
_NONE = -1
# SQL gives a table its key.
_NO_KEY = 0


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
