"""The mirror right after a commit: under a deadline, never failing the commit, never piling up.

A few threads that nobody has to wait for: a store that hangs must not hold the process.
concurrent.futures would join its threads at exit without a limit, and takes no work once the main
thread has ended, although other threads may still commit then.

Tells the workers of new versions: beside the commits, many at once, and never in their way. A
NOTIFY takes a lock of the whole server when it is committed, so no commit carries one; a thread
of the writer's process sends what has gathered, see docs/decisions/0014.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from deltasql.errors import DeltaSqlError
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.commit.request import Committed
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.engine import Mirrored, MirrorEngine, MirrorResult

T = TypeVar("T")

# The first hint goes at once. In a stream of commits each one costs them a little, and a worker
# that has found work looks again by itself for longer than this.
_EVERY_S = 1.0

# A database that does not answer is left alone for so long: workers poll anyway.
_REST_S = 5.0
_CLOSE_FOR_S = 2.0

_BACKLOG = 64
_WORKERS = 8
_LONGEST_PAUSE_S = 60.0
_PATIENCE_S = 1.0

# Longer than a store that answers at all takes; a mount that hangs would never end.
_LONGEST_END_S = 30.0
_logger = logging.getLogger(__name__)


class DaemonPool(Generic[T]):
    """Runs work in at most `size` daemon threads, which are started as they are needed."""

    def __init__(self, size: int, name: str) -> None:
        self._size, self._name = size, name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._pending = 0
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Have the work done; in the calling thread where no thread can be started any more."""
        ended: Future[T] = Future()

        def run() -> None:
            try:
                ended.set_result(work(*args))
            except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
                ended.set_exception(error)

        if self._has_thread():
            self._queue.put(run)
        else:
            run()
        return ended

    def shutdown(self) -> None:
        """Let the threads end once their work is done; no more work may come.

        Takes no lock: in the child of a fork another thread of the parent may have held it.
        """
        for _ in range(self._size):
            self._queue.put(None)

    def _has_thread(self) -> bool:
        """Start a thread if all are busy; False where there is none, as the interpreter ends."""
        with self._lock:
            self._pending += 1
            if self._pending > len(self._threads) < self._size:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        self._pending -= 1
                        return False
                else:
                    self._threads.append(thread)
            return True

    def _serve(self) -> None:
        while (run := self._queue.get()) is not None:
            run()
            run = None  # an idle thread must not keep what it has done, and a catalog with it
            with self._lock:
                self._pending -= 1


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


@dataclass(slots=True, weakref_slot=True, eq=False)
class InlineMirror:
    """Mirrors what was just committed, and the few versions before it that are missing."""

    engine: MirrorEngine
    deadline_s: float
    on_mirrored: Callable[[TableRow, int], None] | None = None
    monotonic: Callable[[], float] = time.monotonic
    # local tables have threads of their own: a network that hangs must not starve them
    _pools: dict[bool, DaemonPool[MirrorResult]] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    _again: set[str] = field(default_factory=set)
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    _running: set[Future[MirrorResult]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Forget the parent's threads and what they are at."""
        self._pools = {}
        self._busy, self._again, self._left, self._running = set(), set(), set(), set()
        self._lock = threading.Lock()
        _open.discard(self)

    def start(self, done: Committed) -> Future[MirrorResult] | None:
        """Begin to mirror a commit, for `wait`; None when it was left to a later attempt."""
        if not self._begin(done.before.table_id):
            return None
        # In a thread, for local files too: a mount that hangs must not hold the commit for ever.
        # That costs about 0.1 ms per commit, of two or three.
        is_local = done.before.location.startswith("file:")
        started = self._pool(is_local=is_local).submit(self._work, done)
        with self._lock:
            self._running.add(started)
        started.add_done_callback(self._forget)
        return started

    def _forget(self, ended: Future[MirrorResult]) -> None:
        with self._lock:
            self._running.discard(ended)

    def wait(self, started: Future[MirrorResult], until: float) -> MirrorResult | None:
        """Wait for what was begun; None where it goes on after `until`."""
        try:
            return started.result(timeout=max(until - self.monotonic(), 0.0))
        except FutureTimeoutError:
            return None

    def close(self, *, wait: bool = True) -> None:
        """Let attempts under way end, and see to what was left to others: they may have died."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
            left, self._left = self._left, set()
        if pools:
            if wait and (hung := self.drain()):
                _logger.warning("%d mirror attempts hang and are left to a worker.", hung)
            _open.discard(self)
            for pool in pools:
                pool.shutdown()
        for table_id in left:
            with suppress(DeltaSqlError):  # it stays in the queue, as after a crash
                self._catch_up(table_id)

    def _begin(self, table_id: str) -> bool:
        with self._lock:
            _, until = self._failures.get(table_id, (0, 0.0))
            if table_id in self._busy:
                # Whoever mirrors the table now takes this version along.
                self._again.add(table_id)
                return False
            if self.monotonic() < until:
                return False
            self._busy.add(table_id)
            return True

    def _work(self, done: Committed) -> MirrorResult:
        table_id = done.before.table_id
        try:
            result = self._mirror(done)
            while result.error is None and not self._end(table_id):
                result = self.engine.catch_up(table_id, seconds=self.deadline_s, most=_BACKLOG)
        finally:
            with self._lock:
                self._busy.discard(table_id)
        self._note(table_id, failed=result.outcome is Mirrored.FAILED)
        return result

    def _end(self, table_id: str) -> bool:
        """Give the table free, unless commits came while it was busy: then go on."""
        with self._lock:
            if table_id in self._again:
                self._again.discard(table_id)
                return False
            self._busy.discard(table_id)
            return True

    def _mirror(self, done: Committed) -> MirrorResult:
        table_id, version = done.before.table_id, done.version
        if done.payload is not None and done.before.mirrored_through == version - 1:
            row = replace(done.before, current_version=version)
            result = self.engine.mirror_version(row, version, done.payload)
            if result.newest is not None and result.newest > version:
                result = self._catch_up(table_id)
        elif self._is_others_work(done):
            with self._lock:
                self._left.add(table_id)
            return MirrorResult(Mirrored.BLOCKED, version)
        else:
            result = self._catch_up(table_id)
        if result.error is None and self.on_mirrored is not None:
            self.on_mirrored(done.before, version)
        return result

    def _catch_up(self, table_id: str) -> MirrorResult:
        return self.engine.catch_up(table_id, seconds=self.deadline_s, most=_BACKLOG)

    def _is_others_work(self, done: Committed) -> bool:
        """Tell whether the log is behind because another writer is just about to move it on.

        That writer takes our version along (see `mark_success`). If the version before ours is
        not quite new, or the log does not move for a while, nobody is at it: then we are.
        """
        before, now = done.before, self.monotonic()
        with self._lock:
            seen = self._seen.get(before.table_id)
            if seen is None or seen[0] != before.mirrored_through:
                seen = self._seen[before.table_id] = (before.mirrored_through, now)
        is_moving = now - seen[1] < _PATIENCE_S
        is_new = 0 <= done.timestamp - before.last_ict < _PATIENCE_S * 1000
        return is_moving and is_new

    def _note(self, table_id: str, *, failed: bool) -> None:
        with self._lock:
            if not failed:
                self._failures.pop(table_id, None)
                return
            count = self._failures.get(table_id, (0, 0.0))[0] + 1
            pause = min(2.0 ** (count - 1), _LONGEST_PAUSE_S)
            self._failures[table_id] = (count, self.monotonic() + pause)

    def _pool(self, *, is_local: bool) -> DaemonPool[MirrorResult]:
        with self._lock:
            pool = self._pools.get(is_local)
            if pool is None:
                pool = self._pools[is_local] = DaemonPool(_WORKERS, "deltasql-mirror")
                # a catalog that nobody closes must leave no threads behind
                weakref.finalize(self, pool.shutdown)
                _open.add(self)
            return pool

    def drain(self) -> int:
        """Wait for attempts under way, as long as a store may take; return how many hang."""
        with self._lock:
            running = list(self._running)
        return len(wait_for(running, timeout=_LONGEST_END_S).not_done)


# Those with threads; a process that ends lets their attempts end, but not for ever.
_open: weakref.WeakSet[InlineMirror] = weakref.WeakSet()


def _drain_all() -> None:
    for mirror in list(_open):
        mirror.drain()


atexit.register(_drain_all)
