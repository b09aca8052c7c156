"""The stores of an open catalog, one per location, opened when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deltasql.forks import abandon, start_afresh_after_fork
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import StoreOpener, open_store

StoreSettings = Mapping[str, Mapping[str, str]]


@dataclass(slots=True, weakref_slot=True)
class Stores:
    """Opens each store once; safe to use from many threads.

    `wrap` is for tests, which put faults in front of a store.
    """

    options: Mapping[str, str] | None = field(default=None, repr=False)
    settings: StoreSettings = field(default_factory=dict, repr=False)
    wrap: Callable[[ObjectStore], ObjectStore] | None = None
    _opened: dict[str, ObjectStore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Open the stores anew: their connections are the parent's."""
        for store in self._opened.values():
            abandon(store)
        self._opened = {}
        self._lock = threading.Lock()

    def at(self, location: str) -> ObjectStore:
        """Return the store at a location."""
        with self._lock:
            store = self._opened.get(location)
            if store is None:
                store = open_store(location, self.options, stores=self.settings)
                if self.wrap is not None:
                    store = self.wrap(store)
                self._opened[location] = store
            return store

    def opener(self, location: str) -> StoreOpener:
        """Return how another process opens the store at a location."""
        return StoreOpener.of(location, self.options, self.settings)

    def close(self) -> None:
        """Close all stores; one that is asked for later is opened again."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for store in opened:
            store.close()
