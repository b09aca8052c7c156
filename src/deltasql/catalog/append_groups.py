"""Blind appends of many threads to one table, committed in groups.

The first thread that finds nobody at work leads: it takes the appends that wait and sends them as
one transaction, each with its own version, time, bytes, token and outcome. The others sleep until
theirs is done, or until they lead the next group.

To lead is an optimization and no lock. The row lock and the unique tokens keep commits right, so
an append whose group failed, or that has waited long, is sent alone by its own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from deltasql.catalog.commit_request import CommitRequest, Committed
from deltasql.crash import crash_point
from deltasql.errors import DeltaSqlError
from deltasql.forks import start_afresh_after_fork

MAX_GROUP = 64
# How long an append waits for a leader to take it. Leaders may be stopped by an interrupt.
_WAIT_TO_BE_TAKEN_S = 2.0
# How long it waits for the outcome of its group; longer than a leader waits for any lock.
_WAIT_FOR_OUTCOME_S = 120.0

# Commits requests to one table in one transaction; None for each that must be sent alone.
SendGroup = Callable[[Sequence[CommitRequest]], Sequence[Committed | None]]


class _Stage(Enum):
    WAITING = "waiting"
    LEADING = "leading"
    TAKEN = "taken"
    SENT = "sent"


@dataclass(slots=True, eq=False)
class _Append:
    request: CommitRequest
    stage: _Stage = _Stage.WAITING
    outcome: Committed | None = None
    changed: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class _Queue:
    """The appends to one table that wait, oldest first, and the one whose thread leads."""

    waiting: list[_Append] = field(default_factory=list)
    leader: _Append | None = None

    def promote_next(self) -> None:
        """Let the append lead that has waited longest."""
        self.leader = self.waiting.pop(0) if self.waiting else None
        if self.leader is not None:
            self.leader.stage = _Stage.LEADING
            self.leader.changed.set()


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
        queue = self._enter(append)
        try:
            if queue.leader is not append:
                self._wait(queue, append)
            if append.stage is _Stage.LEADING:
                self._lead(queue, append, send)
                if append.outcome is None:  # it still leads: others gather meanwhile
                    return alone()
        finally:
            self._leave(queue, append)
        return alone() if append.outcome is None else append.outcome

    def _enter(self, append: _Append) -> _Queue:
        with self._lock:
            queue = self._queues.setdefault(append.request.table_id, _Queue())
            queue.waiting.append(append)
            if queue.leader is None:
                queue.promote_next()
            return queue

    def _wait(self, queue: _Queue, append: _Append) -> None:
        """Wait until the append was sent, or leads, or has waited too long."""
        if append.changed.wait(_WAIT_TO_BE_TAKEN_S):
            return
        with self._lock:
            if append.stage is _Stage.WAITING:
                queue.waiting.remove(append)
                append.stage = _Stage.SENT
                queue.promote_next()  # the leader may be gone; if it is only slow, there are two
                return
        append.changed.wait(_WAIT_FOR_OUTCOME_S)

    def _lead(self, queue: _Queue, leader: _Append, send: SendGroup) -> None:
        """Send what waits, the leader's own append first; its outcome stays open if it is alone."""
        with self._lock:
            others, queue.waiting = queue.waiting[: MAX_GROUP - 1], queue.waiting[MAX_GROUP - 1 :]
            for append in others:
                append.stage = _Stage.TAKEN
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
            for append, outcome in zip(group, outcomes, strict=True):
                append.outcome = outcome
                append.stage = _Stage.SENT
                append.changed.set()

    def _leave(self, queue: _Queue, append: _Append) -> None:
        """Hand the lead over; an append that an interrupt stopped waits no more."""
        with self._lock:
            if append in queue.waiting:
                queue.waiting.remove(append)
            if queue.leader is append:
                queue.promote_next()
            if queue.leader is None and self._queues.get(append.request.table_id) is queue:
                del self._queues[append.request.table_id]
