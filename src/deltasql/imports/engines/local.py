"""Which engine reads a log: this process, child processes or Spark; and the local one."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from queue import SimpleQueue
from typing import Literal, Protocol, Self

from deltasql.cores import usable_cores
from deltasql.errors import BadArgumentError
from deltasql.imports.engines.child_process import ReaderProcess
from deltasql.imports.read.tasks import LogReader, Rows, Task

# So many tasks are worth the start of processes for them.
MANY_TASKS = 3
_MOST_PROCESSES = 4

EngineKind = Literal["auto", "spark", "local"]
_INSTEAD = (
    "Spark is not installed here (pip install 'deltasql[spark]'): the import runs in this process."
)


class Engine(Protocol):
    """Does tasks side by side and gives their rows in the order of the tasks."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Generator[Rows]:
        """Yield what each task read; a bounded number of tasks is done ahead.

        Raises:
            DeltaSqlError: what the first task that failed said, after all rows before it.
        """
        ...

    def close(self) -> None:
        """Let go of what was started for it."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Reads and folds beside the caller, who writes to the database meanwhile.

    Few tasks are done by a thread; a second one would only wait for the interpreter's lock. Many
    are done by processes, one for each core, where those can open the store.
    """

    cores: int = 0
    name: str = field(default="local", init=False)

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Generator[Rows]:
        """Yield what each task read."""
        left = iter(tasks)
        first = list(islice(left, MANY_TASKS))
        cores = min(self.cores or usable_cores(), _MOST_PROCESSES)
        every = chain(first, left)
        opener = reader.elsewhere
        # an interpreter inside another program has no command of its own
        if len(first) < MANY_TASKS or cores == 1 or opener is None or not sys.executable:
            return _in_a_thread(reader, every)
        return _in_processes(replace(reader, open_store=opener), every, cores)

    def close(self) -> None:
        """Nothing outlives a run."""


def _in_a_thread(reader: LogReader, tasks: Iterator[Task]) -> Generator[Rows]:
    with ThreadPoolExecutor(1, thread_name_prefix="deltasql-import") as pool:
        yield from _in_order(pool, reader, tasks, ahead=1)


def _in_processes(reader: LogReader, tasks: Iterator[Task], count: int) -> Generator[Rows]:
    with (
        # left last: its threads wait for the processes, which are ended before
        ThreadPoolExecutor(count, thread_name_prefix="deltasql-import") as pool,
        ExitStack() as started,
    ):
        idle: SimpleQueue[ReaderProcess] = SimpleQueue()
        for _ in range(count):
            idle.put(started.enter_context(ReaderProcess(reader)))

        def do(task: Task) -> Rows:
            process = idle.get()
            try:
                return process.do(task)
            finally:
                idle.put(process)

        yield from _in_order(pool, do, tasks, ahead=count + 1)


def _in_order(
    pool: ThreadPoolExecutor, do: Callable[[Task], Rows], tasks: Iterator[Task], *, ahead: int
) -> Generator[Rows]:
    waiting: deque[Future[Rows]] = deque(pool.submit(do, task) for task in islice(tasks, ahead))
    try:
        while waiting:
            rows = waiting.popleft().result()
            waiting.extend(pool.submit(do, task) for task in islice(tasks, 1))
            yield rows
    finally:
        for future in waiting:
            future.cancel()


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """An engine, and one line about it: why it is not the one to be expected, or where it shows."""

    engine: Engine
    note: str | None = field(default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what was started for the engine."""
        self.engine.close()


def choose_engine(
    kind: EngineKind, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> ChosenEngine:
    """Return the engine for imports; the caller closes it.

    Whoever names a master or a setting of Spark wants Spark.

    Raises:
        MissingExtraError: Spark is wanted, and it or Java is missing.
        BadArgumentError: settings do not fit together.
        TableImportError: Spark does not start.
    """
    wants_spark = kind == "spark" or master is not None or bool(conf)
    if kind == "local":
        if wants_spark:
            raise BadArgumentError(
                "The local engine has no master and no settings of Spark.",
                hint="Leave out `master=` and `conf=`, or use `engine='spark'`.",
            )
        return ChosenEngine(LocalEngine())
    from deltasql.spark_runtime.launch import available  # noqa: PLC0415 (the door to an extra)

    if not wants_spark and not available():
        return ChosenEngine(LocalEngine(), _INSTEAD)
    return _spark_engine(master, conf or {})


def _spark_engine(master: str | None, conf: Mapping[str, str]) -> ChosenEngine:
    from deltasql.imports.engines.spark import SparkEngine  # noqa: PLC0415 (the door to an extra)
    from deltasql.spark_runtime.launch import import_session  # noqa: PLC0415

    spark = import_session(master, conf)
    try:
        note = f"Spark shows its jobs at {spark.page}." if spark.page else None
        return ChosenEngine(SparkEngine(spark), note)
    except BaseException:
        spark.close()
        raise
