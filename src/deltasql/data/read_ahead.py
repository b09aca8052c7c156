"""Read ahead: work done in order by threads while earlier results are used."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Item = TypeVar("Item")
_DEPTH = 2  # items that a task may be ahead
_TICK_S = 0.1  # how soon a waiting task notices that nobody reads on
_END = object()


def read_ahead(given: Iterator[T]) -> Generator[T]:
    """Yield what is given, each already on its way while the caller has the one before.

    A caller that may leave early closes it: what is on its way is waited for then.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="deltasql-ahead") as pool:
        coming = pool.submit(next, given, None)
        while (found := coming.result()) is not None:
            coming = pool.submit(next, given, None)
            yield found


@dataclass(slots=True)
class _Task(Generic[Item]):
    start: Callable[[], Iterator[Item]]
    items: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(_DEPTH))
    error: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            for item in self.start():
                if not self._put(item, stop):
                    return
        except BaseException as error:  # noqa: BLE001 (it is raised again by the reader)
            self.error = error
        self._put(_END, stop)

    def _put(self, item: Any, stop: threading.Event) -> bool:
        while not stop.is_set():
            try:
                self.items.put(item, timeout=_TICK_S)
            except queue.Full:
                continue
            return True
        return False

    def drain(self) -> Iterator[Item]:
        while (item := self.items.get()) is not _END:
            yield item
        if self.error is not None:
            raise self.error


def in_order(
    tasks: Iterable[Callable[[], Iterator[Item]]], *, threads: int
) -> Generator[Item, None, None]:
    """Yield the items of each task, task by task; the next ones are already at work.

    An error of a task is raised where its items would have come. Closing the iterator stops all.
    """
    stop = threading.Event()
    ahead: deque[_Task[Item]] = deque()
    waiting = iter(tasks)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="deltasql-scan")
    try:
        while True:
            while len(ahead) < threads and (start := next(waiting, None)) is not None:
                task = _Task(start)
                ahead.append(task)
                pool.submit(task.run, stop)
            if not ahead:
                return
            yield from ahead[0].drain()
            ahead.popleft()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
