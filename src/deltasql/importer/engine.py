"""Who does the tasks of an import: the port, and the engine that needs no JVM."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol

from deltasql.importer.tasks import LogReader, Rows, Task


class Engine(Protocol):
    """Does tasks side by side and gives their rows in the order of the tasks."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Iterator[Rows]:
        """Yield what each task read; a bounded number of tasks is done ahead.

        Raises:
            DeltaSqlError: what the first task that failed said, after all rows before it.
        """
        ...

    def close(self) -> None:
        """Let go of what was started for it."""
        ...


class LocalEngine:
    """Threads of this process: one reads and folds while the caller writes to the database.

    A second reader would only wait for the interpreter's lock, and its rows take memory.
    """

    name = "local"

    def __init__(self, ahead: int = 1) -> None:
        self._ahead = ahead

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Iterator[Rows]:
        """Yield what each task read."""
        left = iter(tasks)
        with ThreadPoolExecutor(1, thread_name_prefix="deltasql-import") as pool:
            waiting: deque[Future[Rows]] = deque(
                pool.submit(reader, task) for task in islice(left, self._ahead)
            )
            try:
                while waiting:
                    rows = waiting.popleft().result()
                    waiting.extend(pool.submit(reader, task) for task in islice(left, 1))
                    yield rows
            finally:
                for future in waiting:
                    future.cancel()

    def close(self) -> None:
        """Nothing outlives a run."""
