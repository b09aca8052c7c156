"""Purge a table: drop it, then delete the objects that SQL knew, and its log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from deltasql.catalog.leases import PURGE, Lease, Leases
from deltasql.catalog.rows import TableRow
from deltasql.crash import crash_point
from deltasql.errors import DeltaSqlError, LeaseLostError, StorageError, UnsafePathError
from deltasql.log.owner import OWNER_KEY, release
from deltasql.protocol.files import LOG_FOLDER
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore


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
