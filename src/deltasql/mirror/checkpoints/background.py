"""Checkpoints beside the commits: one thread, the newest due version of each table, paced.

Under a stream of commits a checkpoint every few versions would cost more than the commits. After
each one the table rests for several times as long as it took; then the newest due version gets
its checkpoint and those in between get none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltasql.events import CheckpointFailed, Sink, discard
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.checkpoints.write import Checkpointer
from deltasql.mirror.engine import Backoff
from deltasql.mirror.worker.limits import RateLimiter
from deltasql.protocol.log_names import checkpoint_path

_REST = 10.0
_CLOSE_FOR_S = 30.0


@dataclass(slots=True)
class _Waiting:
    """A table that may want a checkpoint, from a moment on."""

    not_before: float = 0.0
    failures: int = 0


@dataclass(slots=True, weakref_slot=True)
class BackgroundCheckpoints:
    """Writes due checkpoints in a thread of its own; `close` finishes what is waiting."""

    checkpointer: Checkpointer
    find_table: Callable[[str], TableRow]
    interval_of: Callable[[TableRow], int]
    codec_of: Callable[[TableRow], str]
    sink: Sink = discard
    backoff: Backoff = field(default_factory=Backoff)
    monotonic: Callable[[], float] = time.monotonic
    # a worker's limit; the checkpoints of a writer have none
    rate: RateLimiter = field(default_factory=RateLimiter)
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _hinted: set[str] = field(default_factory=set)
    _cooldown_until: dict[str, float] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _closing: bool = False
    _is_working: bool = False
    # what failed while somebody waits for the end; None while nobody does
    _hurried: dict[str, _Waiting] | None = None

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Leave what waits to the parent, whose thread it is."""
        self._waiting, self._thread, self._is_working, self._hurried = {}, None, False, None
        self._changed = threading.Condition()

    def offer(self, row: TableRow, version: int) -> None:
        """Say that a version is in the log; costs nothing unless a checkpoint is due."""
        if version <= 0 or version % self.interval_of(row):
            return
        self.want(row.table_id)

    def want(self, table_id: str) -> None:
        """Have a table looked at."""
        with self._changed:
            if self._closing:
                return
            if table_id not in self._waiting:
                self._waiting[table_id] = _Waiting(self._cooldown_until.get(table_id, 0.0))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="deltasql-checkpoints", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def finish(self) -> None:
        """Write everything that waits, each table once and at once, and return when it is done."""
        with self._changed:
            self._hurried = {}
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting and not self._is_working)
            failed, self._hurried = self._hurried, None
            self._waiting |= failed
            self._changed.notify_all()

    def close(self) -> None:
        """Write what is due now and end; a checkpoint that takes too long is left to others."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_CLOSE_FOR_S)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            table_id, waiting = taken
            started = self.monotonic()
            failed = not self._write(table_id)
            ended = self.monotonic()
            with self._changed:
                self._is_working = False
                self._cooldown_until[table_id] = ended + _REST * (ended - started)
                if failed and not self._closing:
                    pause = self.backoff.pause(waiting.failures)
                    again = self._waiting if self._hurried is None else self._hurried
                    again[table_id] = _Waiting(ended + pause, waiting.failures + 1)
                self._changed.notify_all()

    def _take(self) -> tuple[str, _Waiting] | None:
        """Wait for the next table whose time has come; None at the end, and when none waits.

        A thread without work ends: asleep it would keep a catalog open that nobody uses any more.
        """
        with self._changed:
            while True:
                now = self.monotonic()
                for table_id, waiting in self._waiting.items():
                    is_hurried = self._closing or self._hurried is not None
                    if is_hurried or waiting.not_before <= now:
                        del self._waiting[table_id]
                        self._is_working = True
                        return table_id, waiting
                if self._closing or not self._waiting:
                    self._thread = None
                    return None
                next_one = min(waiting.not_before for waiting in self._waiting.values())
                self._changed.wait(max(next_one - now, 0.0))

    def _has_turn(self) -> bool:
        """Wait until the limit lets a checkpoint through; False where the end comes first."""
        with self._changed:
            while True:
                taken, pause = self.rate.try_take()
                if taken or self._closing:
                    return taken > 0
                self._changed.wait(pause)

    def _write(self, table_id: str) -> bool:
        version, name = 0, table_id
        try:
            row = self.find_table(table_id)
            name = row.full_name
            due = self.checkpointer.due(row, self.interval_of(row))
            if due is not None:
                version = due
                if not self._has_turn():
                    return True
                self.checkpointer.write(row, due, codec=self.codec_of(row))
            elif table_id not in self._hinted:
                # whoever wrote the newest checkpoint may have died before it moved the hint
                self.checkpointer.settle_hint(row)
            self._hinted.add(table_id)
        except Exception as error:  # noqa: BLE001 (a full disk must not end the thread)
            self.sink(
                CheckpointFailed(
                    table_id=table_id,
                    table=name,
                    version=version,
                    key=checkpoint_path(version),
                    error_code=getattr(error, "code", type(error).__name__),
                )
            )
            return False
        return True
