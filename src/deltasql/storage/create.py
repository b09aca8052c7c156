"""Create an object exactly once, whatever the network did to the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from deltasql.errors import ObjectExistsError, ObjectNotFoundError, StorageUnavailableError
from deltasql.storage.port import ObjectStore, ObjectTag


class Created(Enum):
    """How a create ended."""

    CREATED = "created"
    SAME = "same"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Creation:
    """How a create ended; `tag` where the put itself was answered with one."""

    outcome: Created
    tag: ObjectTag | None = None


def create_once(store: ObjectStore, key: str, data: bytes) -> Created:
    """Put the object where there is none and tell what is there now; see `create_tagged`."""
    return create_tagged(store, key, data).outcome


def create_tagged(store: ObjectStore, key: str, data: bytes) -> Creation:
    """Put the object where there is none and tell what is there now; safe to repeat.

    "Exists" and a lost answer both mean "unknown", so the key is read back: SAME is our bytes, by
    this attempt or an earlier one; DIFFERENT is somebody else's, left untouched.

    Raises:
        StorageUnavailableError: nothing is there and nothing is known; the caller may try again.
    """
    try:
        e_tag = store.put_if_absent(key, data)
    except (ObjectExistsError, StorageUnavailableError) as error:
        return Creation(_read_back(store, key, data, error))
    return Creation(Created.CREATED, ObjectTag(len(data), e_tag) if e_tag else None)


def _read_back(
    store: ObjectStore, key: str, data: bytes, error: ObjectExistsError | StorageUnavailableError
) -> Created:
    try:
        found = store.get(key)
    except ObjectNotFoundError:
        if isinstance(error, StorageUnavailableError):
            raise error from None
        # a 409 stores nothing and is told as "exists" all the same
        raise StorageUnavailableError(
            f"The store says that {key!r} exists, but it is not there.", key=key
        ) from error
    if found == data:
        return Created.SAME
    if data.startswith(found):
        # a reply that was cut is no other object; if the object itself is cut, this goes on
        raise StorageUnavailableError(
            f"Only the first {len(found)} of {len(data)} bytes of {key!r} came back.", key=key
        )
    return Created.DIFFERENT
