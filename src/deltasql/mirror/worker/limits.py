"""When a worker looks for work: at a sign of a commit, when something got free, or at the poll.

Signs are hints. A watch that is lost is opened again after a while; until then the poll is all
there is, and nobody is bothered with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltasql.catalog.database import CommitWatch
from deltasql.errors import CatalogError
from deltasql.mirror.backoff import Backoff

# So long a worker may be deaf to being stopped; on SQLite also how often it looks at the file.
_STEP_S = 0.05
# Looks for work take at most a tenth of the time, however fast commits come.
_REST = 10.0


@dataclass(slots=True)
class Wakes:
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
