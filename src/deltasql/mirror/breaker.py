"""A breaker per store: an outage is one fault of the store and not one of every version in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_OPENS_AFTER = 3
_PROBE_EVERY_S = 10.0


@dataclass(slots=True)
class _Store:
    failures: int = 0
    probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.failures >= _OPENS_AFTER


@dataclass(slots=True)
class Breakers:
    """Which stores are worth an attempt now; safe to use from many threads."""

    probe_every_s: float = _PROBE_EVERY_S
    monotonic: Callable[[], float] = time.monotonic
    _stores: dict[str, _Store] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def allows(self, store: str) -> bool:
        """Tell whether to try; of a store that is down one attempt in a while, as a probe."""
        with self._lock:
            state = self._stores.get(store)
            if state is None or not state.is_open:
                return True
            now = self.monotonic()
            if now < state.probe_at:
                return False
            state.probe_at = now + self.probe_every_s
            return True

    def failed(self, store: str) -> None:
        """Note that the store did not answer."""
        with self._lock:
            state = self._stores.setdefault(store, _Store())
            state.failures += 1
            if state.failures == _OPENS_AFTER:
                state.probe_at = self.monotonic() + self.probe_every_s

    def suspect(self, store: str) -> None:
        """Note that others met a store that did not answer: the next attempt is a probe."""
        with self._lock:
            state = self._stores.setdefault(store, _Store())
            if not state.is_open:
                state.failures = _OPENS_AFTER
                state.probe_at = self.monotonic()

    def answered(self, store: str) -> bool:
        """Note that the store answered; True if it was thought to be down until now."""
        with self._lock:
            state = self._stores.pop(store, None)
            return state is not None and state.is_open

    def down(self) -> list[str]:
        """Return the stores that are thought to be down."""
        with self._lock:
            return sorted(key for key, state in self._stores.items() if state.is_open)


def store_of(location: str) -> str:
    """Return the store that a table's location is in: its bucket, or a local folder itself."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return location
    return f"{scheme}://{rest.split('/', 1)[0]}"
