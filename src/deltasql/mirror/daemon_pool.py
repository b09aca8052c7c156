"""A few threads that nobody has to wait for: a store that hangs must not hold the process.

concurrent.futures would join its threads at exit without a limit, and takes no work once the main
thread has ended, although other threads may still commit then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
