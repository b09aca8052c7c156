"""Purge a table: drop it, then delete the objects that SQL knew, and its log."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.catalog.rows import TableRow
from deltasql.client.session import Session
from deltasql.crash import crash_point
from deltasql.errors import StorageError, UnsafePathError
from deltasql.log.owner import OWNER_KEY
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.port import ObjectStore


def purge_table(session: Session, row: TableRow) -> None:
    """Take a table out of the catalog and delete its files.

    Raises:
        OwnershipError: the log is another catalog's, or ahead of SQL; nothing was changed.
        TableStateError: another table refers to its files; nothing was changed.
        StorageError: the table is dropped, but some objects could not be deleted.
    """
    store = session.store_of(row)
    session.engine.ownership.require_none_else(row, store)
    crash_point("before-drop")
    keys = session.book.dropping().purge(row)
    session.engine.ownership.forget(row.table_id)
    delete_objects(store, keys)


def delete_objects(store: ObjectStore, keys: Iterable[str]) -> None:
    """Delete data files below the root, then the log; what lies elsewhere is never touched.

    The table is out of SQL by then, so a crash leaves objects that nobody refers to. The owner
    marker goes last: until then no other catalog takes the place.

    Raises:
        StorageError: some objects could not be deleted; all others were.
    """
    crash_point("before-purge")
    failures = [error for key in keys if (error := _delete(store, key)) is not None]
    for info in list(store.list_from(LOG_FOLDER)):
        if info.key != OWNER_KEY:
            store.delete(info.key)
    store.delete(OWNER_KEY)
    if failures:
        raise StorageError(
            f"The table is dropped, but {len(failures)} objects at {store.uri} are left: "
            f"{failures[0].message}",
            hint="Delete the folder by hand when nobody needs it.",
        ) from failures[0]


def _delete(store: ObjectStore, key: str) -> StorageError | None:
    try:
        store.delete(key)
    except UnsafePathError:
        return None
    except StorageError as error:
        return error
    return None
