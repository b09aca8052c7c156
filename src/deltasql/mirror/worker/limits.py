"""When the worker looks and how much it does: wake-ups, slots, rates and circuit breakers.

Signs are hints. A watch that is lost is opened again after a while; until then the poll is all
there is, and nobody is bothered with it.

Which tables are being mirrored, and whether one more may begin. An attempt at a store that hangs
holds its thread until the store's time-out. Such attempts stop counting after a while, so that
other stores' tables need not wait for them; one store never holds more than its share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from deltasql.database.port import CommitWatch
from deltasql.errors import CatalogError
from deltasql.mirror.engine import Backoff, MirrorResult

# So long a worker may be deaf to being stopped; on SQLite also how often it looks at the file.
_STEP_S = 0.05

# Looks for work take at most a tenth of the time, however fast commits come.
_REST = 10.0

Attempt = Future[MirrorResult | None]

# A batch on a store that answers takes less.
HUNG_S = 5.0

# So many threads there are for each one that may work at the same time.
SPARE = 4

# Sums of fractions of a second may end a hair below a whole token.
_NEARLY = 1e-9

_OPENS_AFTER = 3
_PROBE_EVERY_S = 10.0


@dataclass(slots=True)
class WorkSignal:
    """Waits for the next reason to look for work; used by one thread."""

    open_watch: Callable[[], CommitWatch] | None = None
    backoff: Backoff = field(default_factory=Backoff)
    monotonic: Callable[[], float] = time.monotonic
    # set where a table that was passed over may be taken now
    freed: threading.Event = field(default_factory=threading.Event)
    _watch: CommitWatch | None = None
    _failures: int = 0
    _open_at: float = 0.0

    def listen(self) -> None:
        """Open the watch, if it is time to; before a look for work, so that nothing is missed."""
        if self.open_watch is None or self._watch is not None:
            return
        if self.monotonic() < self._open_at:
            return
        try:
            self._watch = self.open_watch()
        except CatalogError:
            self._lose()
        else:
            self._failures = 0

    def wait(self, poll_s: float, stop: threading.Event, *, look_s: float = 0.0) -> bool:
        """Return at a sign, at the latest after `poll_s`; True if there was one.

        `look_s` is how long the last look took: a look that is dear is not repeated so soon.
        """
        until = self.monotonic() + poll_s
        if stop.wait(min(max(_STEP_S, look_s * _REST), poll_s)):
            return False
        while not stop.is_set() and (left := until - self.monotonic()) > 0:
            if self.freed.is_set() or self._heard(min(left, _STEP_S), stop):
                self.freed.clear()
                return True
        return False

    def close(self) -> None:
        """Let go of the watch."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _heard(self, seconds: float, stop: threading.Event) -> bool:
        if self._watch is None:
            stop.wait(seconds)
            return False
        try:
            return self._watch.heard(seconds)
        except CatalogError:
            self._lose()
            return False

    def _lose(self) -> None:
        self.close()
        self._open_at = self.monotonic() + self.backoff.pause(self._failures)
        self._failures += 1


@dataclass(frozen=True, slots=True)
class _Taken:
    attempt: Attempt
    store: str
    began: float


@dataclass(slots=True)
class InFlightTables:
    """The attempts under way of one reconciler; used by its own thread only."""

    most: int
    monotonic: Callable[[], float] = time.monotonic
    _taken: dict[str, _Taken] = field(default_factory=dict)

    def sweep(self) -> None:
        """Forget the attempts that have ended."""
        self._taken = {k: one for k, one in self._taken.items() if not one.attempt.done()}

    def has(self, table_id: str) -> bool:
        """Tell whether a table is being mirrored."""
        return table_id in self._taken

    def allows(self, store: str) -> bool:
        """Tell whether an attempt at this store may begin."""
        now = self.monotonic()
        taken = self._taken.values()
        working = sum(now - one.began < HUNG_S for one in taken)
        there = sum(one.store == store for one in taken)
        return working < self.most and there < self.most and len(taken) < self.most * SPARE

    def take(self, table_id: str, store: str, attempt: Attempt) -> None:
        """Note an attempt that has begun."""
        self._taken[table_id] = _Taken(attempt, store, self.monotonic())

    @property
    def has_ended(self) -> bool:
        """Whether some attempt has ended since the last sweep."""
        return any(one.attempt.done() for one in self._taken.values())


@dataclass(slots=True)
class RateLimiter:
    """At most `per_s` a second, and at most `burst` at once; 0 is no limit. Safe in many threads.

    Time and waiting come from outside.
    """

    per_s: float = 0.0
    burst: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _at: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._tokens = self.burst

    @classmethod
    def per_second(cls, count: int) -> RateLimiter:
        """Return a limit of so many a second."""
        return cls(float(count), max(float(count), 1.0))

    @classmethod
    def per_minute(cls, count: int) -> RateLimiter:
        """Return a limit of so many a minute, none of them saved up."""
        return cls(count / 60)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.per_s > 0

    def try_take(self, wanted: int = 1) -> tuple[int, float]:
        """Take up to so many tokens; return how many, and, where none, the seconds until one."""
        if not self.is_limited:
            return wanted, 0.0
        with self._lock:
            self._fill()
            taken = min(wanted, int(self._tokens + _NEARLY))
            self._tokens -= taken
            return taken, 0.0 if taken else (1.0 - self._tokens) / self.per_s

    def take(self, wanted: int, wait: Callable[[float], bool]) -> int:
        """Take at least one token and up to so many; 0 where `wait` says that all is over."""
        while True:
            taken, pause = self.try_take(wanted)
            if taken or wait(pause):
                return taken

    def give_back(self, count: int) -> None:
        """Return tokens that were not used."""
        if self.is_limited and count > 0:
            with self._lock:
                self._tokens = min(self.burst, self._tokens + count)

    def _fill(self) -> None:
        now = self.monotonic()
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        self._tokens = min(self.burst, self._tokens + passed * self.per_s)


@dataclass(slots=True)
class _Store:
    failures: int = 0
    probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.failures >= _OPENS_AFTER


@dataclass(slots=True)
class CircuitBreakers:
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
