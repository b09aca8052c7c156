"""Tells the workers of new versions: beside the commits, many at once, and never in their way.

A NOTIFY takes a lock of the whole server when it is committed, so no commit carries one; a thread
of the writer's process sends what has gathered, see docs/decisions/0014.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltasql.errors import DeltaSqlError
from deltasql.forks import start_afresh_after_fork

# The first hint goes at once. In a stream of commits each one costs them a little, and a worker
# that has found work looks again by itself for longer than this.
_EVERY_S = 1.0
# A database that does not answer is left alone for so long: workers poll anyway.
_REST_S = 5.0
_CLOSE_FOR_S = 2.0


@dataclass(slots=True, weakref_slot=True)
class CommitHinter:
    """Sends hints of commits, at most one statement in a while; a hint that fails is dropped."""

    send: Callable[[Sequence[str]], None]
    every_s: float = _EVERY_S
    monotonic: Callable[[], float] = time.monotonic
    _tables: set[str] = field(default_factory=set)
    _not_before: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _closing: bool = False

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Leave what has gathered to the parent, whose thread sends it."""
        self._tables, self._thread = set(), None
        self._changed = threading.Condition()

    def hint(self, table_id: str) -> None:
        """Say that a table has a new version; returns at once."""
        with self._changed:
            if self._closing or table_id in self._tables:
                return
            self._tables.add(table_id)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="deltasql-hints", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what has gathered and end."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(_CLOSE_FOR_S)

    def _run(self) -> None:
        while (tables := self._take()) is not None:
            pause = self.every_s
            try:
                self.send(tables)
            except DeltaSqlError:
                pause = _REST_S
            self._not_before = self.monotonic() + pause

    def _take(self) -> list[str] | None:
        """Wait for tables and for their moment; None at the end, and when none come for a while.

        A thread without work ends: asleep it would keep a catalog open that nobody uses any more.
        """
        with self._changed:
            while not self._closing:
                pause = self._not_before - self.monotonic()
                if self._tables and pause <= 0:
                    break
                has_news = self._changed.wait(pause if self._tables else self.every_s)
                if not has_news and not self._tables:
                    break
            taken, self._tables = sorted(self._tables), set()
            if not taken:
                self._thread = None
            return taken or None
