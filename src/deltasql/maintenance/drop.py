"""Purge a table's files, bring a dropped table back, or release an import."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from deltasql.crash import crash_point
from deltasql.errors import (
    DeltaSqlError,
    LeaseLostError,
    MirrorConflictError,
    ObjectNotFoundError,
    OwnershipError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
    UnsafePathError,
)
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner, read_owner, release
from deltasql.metastore.dropping import require_droppable_back
from deltasql.metastore.leases import PURGE, Lease, Leases
from deltasql.metastore.log_state import Copies, is_own_log
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.engine import MirrorEngine
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore

_CATCH_UP_S = 10.0


def purge_table(connection: Connection, row: TableRow) -> None:
    """Take a table out of the catalog and delete its files.

    Raises:
        OwnershipError: the log is another catalog's, or ahead of SQL; nothing was changed.
        TableStateError: another table refers to its files; nothing was changed.
        LeaseLostError: another process is purging the table.
        StorageError: the table is dropped, but some objects could not be deleted.
    """
    store = connection.store_of(row)
    connection.ownership.require_none_else(row, store)
    leases = connection.leases
    lease = leases.acquire(row.table_id, PURGE)
    if lease is None:
        raise LeaseLostError(
            f"Another process is purging table {row.full_name}.", table=row.full_name
        )
    try:
        crash_point("before-drop")
        keys = connection.metastore.dropping().purge(row)
        connection.ownership.forget(row.table_id)
        failures = _Deletion(store, leases, lease).delete_objects(keys)
        release(store, connection.metastore.identity.catalog_id, row.table_id)
    finally:
        with suppress(DeltaSqlError):  # it runs out by itself
            leases.end(lease)
    if failures:
        raise StorageError(
            f"The table is dropped, but {len(failures)} objects at {store.uri} are left: "
            f"{failures[0].message}",
            hint="Delete the folder by hand when nobody needs it.",
        ) from failures[0]


@dataclass(slots=True)
class _Deletion:
    """Deletes the objects of a table that SQL no longer has.

    While the lease lasts, no table of this catalog is made at the location, and the owner marker,
    which goes last, keeps other catalogs away.
    """

    store: ObjectStore
    leases: Leases
    lease: Lease
    _renewed: float = 0.0

    def delete_objects(self, keys: Iterable[str]) -> list[StorageError]:
        """Delete data files below the root, then the log; what lies elsewhere is never touched.

        A crash leaves objects that nobody refers to. Returns why data files could not be deleted.

        Raises:
            StorageError: the log could not be deleted.
            LeaseLostError: the location may be another table's by now; the rest is left.
        """
        crash_point("before-purge")
        failures = [
            error for key in self._renewing(keys) if (error := _delete(self.store, key)) is not None
        ]
        for key in self._renewing([info.key for info in self.store.list_from(LOG_FOLDER)]):
            if key != OWNER_KEY:
                self.store.delete(key)
        return failures

    def _renewing(self, keys: Iterable[str]) -> Iterator[str]:
        """Yield the keys, with a lease that has not run out."""
        for key in keys:
            if time.monotonic() - self._renewed > self.leases.ttl_ms / 4_000:
                self.leases.renew(self.lease)
                self._renewed = time.monotonic()
            yield key


def _delete(store: ObjectStore, key: str) -> StorageError | None:
    try:
        store.delete(key)
    except UnsafePathError:
        return None
    except StorageError as error:
        return error
    return None


def take_back(connection: Connection, row: TableRow, *, purge: bool) -> None:
    """Erase all rows of an import that was not cut over.

    Raises:
        TableStateError: the source was to be deleted with it, or a cut-over is under way.
    """
    if purge:
        raise TableStateError(
            f"Table {row.full_name} is {row.state}: its files belong to a log that others write.",
            hint="Drop it without `purge=True`: the source stays as it is.",
            table=row.full_name,
        )
    Copies(connection.metastore.database).erase(row.table_id)
    leave(connection, row)


def let_go(connection: Connection, row: TableRow) -> int:
    """Let go of a read-only import and return its version; its history stays for the audit.

    Raises:
        TableStateError: a cut-over is under way.
    """
    Copies(connection.metastore.database).detach(row.table_id)
    leave(connection, row)
    return row.current_version


def leave(connection: Connection, row: TableRow) -> None:
    """Remove our marker beside the log, so that anybody may take it over."""
    crash_point("before-marker-removed")
    release(connection.store_of(row), connection.metastore.identity.catalog_id, row.table_id)


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
