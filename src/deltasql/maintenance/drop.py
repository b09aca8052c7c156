"""Bring a dropped table back: its rows, its files and its log were kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from deltasql.catalog.copies import is_own_log
from deltasql.catalog.dropping import require_droppable_back
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import (
    MirrorConflictError,
    ObjectNotFoundError,
    OwnershipError,
    TableExistsError,
    TableNotFoundError,
)
from deltasql.log.owner import OWNER_KEY, Owner, encode_owner, read_owner
from deltasql.mirror.engine import MirrorEngine
from deltasql.protocol.codec import digest
from deltasql.protocol.files import commit_key
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

_CATCH_UP_S = 10.0


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that was dropped; `state` is the one that it had, None where it cannot come back."""

    name: str
    table_id: str
    location: str
    version: int
    state: TableState | None
    dropped_at: int | None
    is_purged: bool


def dropped_tables(connection: Connection) -> list[DroppedTable]:
    """Return the dropped tables, the last one first."""
    return [
        DroppedTable(
            row.full_name,
            row.table_id,
            row.location,
            row.current_version,
            row.state_before_drop,
            row.dropped_at,
            row.is_purged,
        )
        for row in connection.metastore.dropped_tables()
    ]


def undrop_table(
    connection: Connection,
    name: str,
    table_id: str | None,
    engine: Callable[[], MirrorEngine],
    *,
    dry_run: bool,
) -> TableRow:
    """Bring back the table of this name that was dropped last, or the one with this id.

    `engine` returns what mirrors the versions that its log lacks.

    Raises:
        TableNotFoundError: no table of this name was dropped.
        TableStateError: it was purged, or replaced by a new import.
        TableExistsError: its name or its location is taken.
        OwnershipError, MirrorConflictError: its log is not the one that it was dropped with.
    """
    row = _choose(connection, name, table_id)
    state = require_droppable_back(row)
    _refuse_taken(connection, row, state)
    marker = None
    if is_own_log(replace(row, state=state)):
        store = connection.store_of(row)
        marker = _require_own_marker(connection, row, store)
        connection.ownership.refuse_ahead(row, store)
        _require_same_log(connection, row, store)
    if dry_run:
        return row
    crash_point("before-undrop")
    found = connection.metastore.undrop(row)
    crash_point("after-undrop")
    connection.ownership.forget(row.table_id)
    if marker is not None:
        _renew_marker(connection, found, marker)
        if found.mirrored_through < found.current_version and not found.mirror_paused:
            engine().catch_up(found.table_id, seconds=_CATCH_UP_S)
    return connection.metastore.table_by_id(found.table_id)


def _choose(connection: Connection, name: str, table_id: str | None) -> TableRow:
    """Return the table that was dropped last, of those that can come back if there are any."""
    named = [row for row in connection.metastore.dropped_tables() if row.full_name == name]
    if table_id is not None:
        named = [row for row in named if row.table_id == table_id]
    if not named:
        which = f" with the id {table_id}" if table_id is not None else ""
        raise TableNotFoundError(
            f"No table {name!r}{which} was dropped.",
            hint="`catalog.dropped_tables()` lists the dropped tables.",
            table=name,
        )
    return next((row for row in named if row.state_before_drop is not None), named[0])


def _refuse_taken(connection: Connection, row: TableRow, state: TableState) -> None:
    """Refuse a name that is taken, and a place in which another table lies, or around which.

    A detached table has given its place to others. The undropping transaction decides.
    """
    for other in connection.metastore.tables_around(row):
        if other.full_name == row.full_name:
            raise TableExistsError(
                f"There is a table {row.full_name!r} already.",
                hint="Rename or drop that table first.",
                table=row.full_name,
            )
        if state is not TableState.DETACHED:
            raise TableExistsError(
                f"The location {row.location} belongs to table {other.full_name} now.",
                hint="Drop that table first.",
                table=other.full_name,
            )


def _require_own_marker(connection: Connection, row: TableRow, store: ObjectStore) -> Owner:
    """Return the owner marker, which a drop leaves; it may be of an epoch that is over."""
    found, identity = read_owner(store), connection.metastore.identity
    if found is None:
        raise OwnershipError(
            f"The log of {row.full_name} at {store.uri} has no owner marker any more: others may "
            "have written to it since the table was dropped.",
            hint=f"Import it: `catalog.import_table({row.location!r}, name={row.full_name!r})`.",
            key=OWNER_KEY,
        )
    is_ours = (found.catalog_id, found.table_id) == (identity.catalog_id, row.table_id)
    if not is_ours or found.epoch > identity.epoch:
        raise OwnershipError(
            f"The log of {row.full_name} at {store.uri} belongs to catalog {found.catalog_id}, "
            f"table {found.table_id}, epoch {found.epoch} now.",
            hint="It cannot come back beside its new owner.",
            key=OWNER_KEY,
        )
    return found


def _require_same_log(connection: Connection, row: TableRow, store: ObjectStore) -> None:
    """What was mirrored last must be there; what was not must be missing, or the same."""
    first = max(row.mirrored_through, row.oldest_version)
    known = connection.metastore.digests(row.table_id, first, row.current_version)
    for version, wanted in sorted(known.items()):
        key = commit_key(version)
        try:
            found = digest(store.get(key))
        except ObjectNotFoundError:
            if version > row.mirrored_through:
                return
            raise OwnershipError(
                f"The log of {row.full_name} at {store.uri} has lost {key}.",
                hint="Restore the table's folder from a backup, then run undrop again.",
                key=key,
            ) from None
        if found != wanted:
            raise MirrorConflictError(
                f"Version {version} of {row.full_name} is another commit in SQL than in the log.",
                hint=f"Import the log as it is: `deltasql import {row.location}`.",
                table=row.full_name,
                version=version,
            )


def _renew_marker(connection: Connection, row: TableRow, found: Owner) -> None:
    """Name the catalog's epoch as the owner, as a recovery does for the tables that are there."""
    identity = connection.metastore.identity
    owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
    if found != owner:
        connection.store_of(row).put(OWNER_KEY, encode_owner(owner))
        crash_point("after-undrop-marker")
