"""Keep foreign bytes of a log aside, durably and once, before anything is put in their place."""

from __future__ import annotations

from deltasql.crash import crash_point
from deltasql.errors import MirrorConflictError, MirrorError, StorageUnavailableError
from deltasql.protocol.codec import digest
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.create import Created, create_once
from deltasql.storage.port import ObjectStore

SAVED = f"{LOG_FOLDER}_deltasql_saved/"


def read_whole(store: ObjectStore, key: str) -> bytes:
    """Return an object, all of it: half of a foreign commit must not pass for the commit.

    Raises:
        ObjectNotFoundError: there is none.
        StorageUnavailableError: only a part came back.
    """
    data, size = store.get(key), store.head(key).size
    if len(data) != size:
        raise StorageUnavailableError(f"Only a part of {key} came back.", key=key)
    return data


def saved_key(key: str, data: bytes) -> str:
    """Return where bytes of a log's file are kept; other bytes have another place."""
    return f"{SAVED}{key.removeprefix(LOG_FOLDER)}.{digest(data)[:12]}"


def keep_aside(store: ObjectStore, key: str, data: bytes) -> str:
    """Copy the bytes of a file to their place aside and return it; safe to repeat.

    What is kept is never overwritten.

    Raises:
        MirrorError: other bytes are there; nothing was changed.
    """
    kept = saved_key(key, data)
    if create_once(store, kept, data) is Created.DIFFERENT or read_whole(store, kept) != data:
        raise MirrorError(
            f"{kept} at {store.uri} does not hold the bytes of {key} that its name says.",
            hint="Nothing was replaced. Move that file away, then repair again.",
            key=kept,
        )
    crash_point("foreign-kept-aside")
    return kept


def require_unchanged(store: ObjectStore, key: str, data: bytes) -> None:
    """Make sure that a file still holds the bytes that were kept aside.

    Raises:
        MirrorConflictError: somebody has written it since.
    """
    if store.get(key) != data:
        raise MirrorConflictError(
            f"{key} at {store.uri} was written again while the log was repaired.",
            hint="Stop the foreign writer, then repair again.",
            key=key,
        )
