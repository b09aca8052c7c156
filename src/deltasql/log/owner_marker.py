"""The owner marker beside the log: which catalog may write to it.

`_delta_log/_deltasql` is ignored by readers. A restored backup, a cloned database or a second
catalog finds another owner there, or a log ahead of its SQL, and writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from deltasql.errors import ObjectNotFoundError, OwnershipError, StorageUnavailableError
from deltasql.protocol.log_names import LOG_FOLDER
from deltasql.storage.port import Created, ObjectStore, create_once

OWNER_KEY = f"{LOG_FOLDER}_deltasql"


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """The catalog that writes a table's log."""

    catalog_id: str
    epoch: int
    table_id: str


def read_owner(store: ObjectStore) -> Owner | None:
    """Return the marker beside the log, or None where there is none.

    Raises:
        StorageUnavailableError: what came back is no marker; it may have been cut on its way.
    """
    try:
        text = store.get(OWNER_KEY)
    except ObjectNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Owner)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StorageUnavailableError(
            f"The owner marker {OWNER_KEY} at {store.uri} is damaged.",
            hint="If it stays so, `deltasql recover` writes it again.",
            key=OWNER_KEY,
        ) from error


def claim(store: ObjectStore, owner: Owner) -> None:
    """Put the marker where there is none; safe to repeat.

    Raises:
        OwnershipError: the log belongs to another catalog or table.
    """
    if create_once(store, OWNER_KEY, encode_owner(owner)) is Created.DIFFERENT:
        check_owner(store, owner)


def reserve(store: ObjectStore, owner: Owner, is_leftover: Callable[[Owner], bool]) -> None:
    """Keep other catalogs away from a location before a table is made there.

    A leftover marker of this catalog keeps them away as well and stays: another create of this
    catalog may be under way behind it, and SQL decides which of them makes the table.

    Raises:
        OwnershipError: the location belongs to another catalog, or to a table of this one.
    """
    if create_once(store, OWNER_KEY, encode_owner(owner)) is not Created.DIFFERENT:
        return
    found = read_owner(store)
    if found is None:
        raise StorageUnavailableError(
            f"The owner marker at {store.uri} was taken away while it was read.", key=OWNER_KEY
        )
    if found != owner and not is_leftover(found):
        raise owner_error(store, found)


def release(store: ObjectStore, catalog_id: str, table_id: str) -> None:
    """Take the marker away if it is this table's: it keeps other catalogs out. Safe to repeat."""
    found = read_owner(store)
    if found is None or (found.catalog_id, found.table_id) != (catalog_id, table_id):
        return
    with contextlib.suppress(ObjectNotFoundError):
        store.delete(OWNER_KEY)


def check_owner(store: ObjectStore, owner: Owner) -> bool:
    """Return whether the marker is there, after making sure that it is ours.

    Raises:
        OwnershipError: it names another catalog, table or epoch.
    """
    found = read_owner(store)
    if found is not None and found != owner:
        raise owner_error(store, found)
    return found is not None


def owner_error(store: ObjectStore, found: Owner) -> OwnershipError:
    """Return the error that names the catalog and the table to which a log belongs."""
    return OwnershipError(
        f"The log at {store.uri} belongs to catalog {found.catalog_id}, table "
        f"{found.table_id}, epoch {found.epoch}.",
        key=OWNER_KEY,
    )


def encode_owner(owner: Owner) -> bytes:
    """Return the marker's bytes; equal owners give equal bytes."""
    return msgspec.json.encode(owner) + b"\n"
