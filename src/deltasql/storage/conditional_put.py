"""Does a store keep the promise of put-if-absent? Asked when a table is registered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum

from deltasql.errors import (
    ObjectExistsError,
    StorageError,
    StorageUnavailableError,
    UnsafeStoreError,
)
from deltasql.storage.port import ObjectStore

_WRITERS = 4
_ROUNDS = 3


class StoreVerdict(Enum):
    """What the store does with a condition."""

    HONOURS = "honours"
    IGNORES = "ignores"


def check_conditional_put(store: ObjectStore, roll: str) -> StoreVerdict:
    """Put a probe twice, then race for it; the probes are removed whatever happens.

    `roll` makes the probe's name unique. A store that checks without atomicity may pass: a few
    rounds find it often, not always.

    Raises:
        StorageUnavailableError: the store did not answer; nothing is known.
    """
    probe = f"_delta_log/_deltasql_probe_{roll}"
    try:
        if not _refuses_second(store, f"{probe}_0"):
            return StoreVerdict.IGNORES
        for number in range(1, _ROUNDS + 1):
            if not _one_winner(store, f"{probe}_{number}"):
                return StoreVerdict.IGNORES
    except UnsafeStoreError:
        return StoreVerdict.IGNORES
    return StoreVerdict.HONOURS


def _refuses_second(store: ObjectStore, key: str) -> bool:
    with _removed_afterwards(store, key):
        store.put_if_absent(key, b"first")
        return not _creates(store, key, b"second") and store.get(key) == b"first"


def _one_winner(store: ObjectStore, key: str) -> bool:
    bodies = [b"writer %d" % number for number in range(_WRITERS)]
    start = threading.Barrier(_WRITERS)

    def create(body: bytes) -> bool:
        start.wait()
        return _creates(store, key, body)

    with _removed_afterwards(store, key), ThreadPoolExecutor(_WRITERS) as pool:
        outcomes = list(pool.map(create, bodies))
        won = [body for body, has_won in zip(bodies, outcomes, strict=True) if has_won]
        if not won:
            raise StorageUnavailableError(f"No create of {key!r} succeeded.", key=key)
        return won == [store.get(key)]


def _creates(store: ObjectStore, key: str, body: bytes) -> bool:
    try:
        store.put_if_absent(key, body)
    except ObjectExistsError:
        return False
    return True


@contextmanager
def _removed_afterwards(store: ObjectStore, key: str) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(StorageError):  # the verdict matters more than a probe left behind
            store.delete(key)
