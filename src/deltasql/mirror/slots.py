"""Which tables are being mirrored, and whether one more may begin.

An attempt at a store that hangs holds its thread until the store's time-out. Such attempts stop
counting after a while, so that other stores' tables need not wait for them; one store never holds
more than its share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from deltasql.mirror.engine import MirrorResult

Attempt = Future[MirrorResult | None]
# A batch on a store that answers takes less.
HUNG_S = 5.0
# So many threads there are for each one that may work at the same time.
SPARE = 4


@dataclass(frozen=True, slots=True)
class _Taken:
    attempt: Attempt
    store: str
    began: float


@dataclass(slots=True)
class Slots:
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
