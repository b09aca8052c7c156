"""Blind appends of many threads to one table, committed in groups.

The first thread that finds nobody at work leads: it takes the appends that wait and sends them as
one transaction, each with its own version, time, bytes, token and outcome. The others sleep until
theirs is sent, or until they lead the next group.

To lead is an optimization and no lock. The row lock and the unique tokens keep commits right, so
an append whose group failed, or that has waited long, is sent alone by its own thread.

Signal handlers raise in the main thread, between any two statements. So that it leaves no append of
others half done, the main thread takes none: it sends its own alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltasql.catalog.commit_request import CommitRequest, Committed
from deltasql.crash import crash_point
from deltasql.errors import DeltaSqlError
from deltasql.forks import start_afresh_after_fork

MAX_GROUP = 64
# How long an append waits to be taken by a leader. Then it leads too.
_WAIT_TO_BE_TAKEN_S = 2.0
# How long it waits for the outcome of its group; longer than a leader waits for any lock.
_WAIT_FOR_OUTCOME_S = 120.0

# Commits requests to one table in one transaction; None for each that must be sent alone.
SendGroup = Callable[[Sequence[CommitRequest]], Sequence[Committed | None]]


@dataclass(slots=True, eq=False)
class _Append:
    request: CommitRequest
    is_taken: bool = False
    is_sent: bool = False
    outcome: Committed | None = None
    wake: threading.Event | None = None

    def sent(self, outcome: Committed | None) -> None:
        """Take the outcome, and wake the thread if it waits."""
        self.outcome = outcome
        self.is_sent = True
        if self.wake is not None:
            self.wake.set()


@dataclass(slots=True)
class _Queue:
    """The appends to one table that wait, oldest first, and the one whose thread leads."""

    waiting: list[_Append] = field(default_factory=list)
    leader: _Append | None = None


class AppendGroups:
    """The appends that wait, by table; safe in many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Forget the parent's threads."""
        self._lock = threading.Lock()
        self._queues = {}

    def commit(
        self, request: CommitRequest, send: SendGroup, alone: Callable[[], Committed]
    ) -> Committed:
        """Commit an append: in a group by `send`, or by calling `alone`."""
        append = _Append(request)
        try:
            wake = self._join(append)
            if wake is not None:
                self._wait(append, wake)
            if not append.is_taken and not _is_interruptible():
                self._lead(append, send)
            if append.outcome is None:  # a leader still leads: others gather meanwhile
                return alone()
        finally:
            self._leave(append)
        return append.outcome

    def _join(self, append: _Append) -> threading.Event | None:
        """Lead at once where nobody does, else return what will wake the append."""
        with self._lock:
            queue = self._queues.setdefault(append.request.table_id, _Queue())
            if queue.leader is None:
                queue.leader = append
                return None
            append.wake = threading.Event()
            queue.waiting.append(append)
            return append.wake

    def _wait(self, append: _Append, wake: threading.Event) -> None:
        """Wait until the append was sent or leads."""
        started = time.monotonic()
        while not append.is_sent:
            patience = _WAIT_FOR_OUTCOME_S if append.is_taken else _WAIT_TO_BE_TAKEN_S
            left = started + patience - time.monotonic()
            wake.wait(max(left, 0.0))
            with self._lock:
                if append.is_sent or (append.is_taken and left <= 0):
                    return
                if not append.is_taken and self._may_lead(append, is_late=left <= 0):
                    return
                wake.clear()

    def _may_lead(self, append: _Append, *, is_late: bool) -> bool:
        queue = self._queues.setdefault(append.request.table_id, _Queue())
        if queue.leader is not None and not is_late:
            return False
        if append in queue.waiting:
            queue.waiting.remove(append)
        queue.leader = append
        return True

    def _lead(self, leader: _Append, send: SendGroup) -> None:
        """Send what waits, the leader's own append first; its outcome stays open if it is alone."""
        with self._lock:
            queue = self._queues.setdefault(leader.request.table_id, _Queue())
            others, queue.waiting = queue.waiting[: MAX_GROUP - 1], queue.waiting[MAX_GROUP - 1 :]
            for append in others:
                append.is_taken = True
        if not others:
            return
        group = [leader, *others]
        outcomes: Sequence[Committed | None] = [None] * len(group)
        try:
            crash_point("before-group")
            outcomes = send([append.request for append in group])
        except DeltaSqlError:
            pass  # each is sent alone, and finds its token where the group was committed after all
        finally:
            with self._lock:
                for append, outcome in zip(group, outcomes, strict=True):
                    append.sent(outcome)

    def _leave(self, append: _Append) -> None:
        """Wake who has waited longest; an append that an interrupt stopped waits no more."""
        with self._lock:
            queue = self._queues.get(append.request.table_id)
            if queue is None:
                return
            if append in queue.waiting:
                queue.waiting.remove(append)
            if queue.leader is append:
                queue.leader = None
            if queue.leader is not None:
                return
            wake = queue.waiting[0].wake if queue.waiting else None
            if wake is not None:
                wake.set()
            else:
                del self._queues[append.request.table_id]


def _is_interruptible() -> bool:
    return threading.current_thread() is threading.main_thread()
