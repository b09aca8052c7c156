"""Reads the tasks of an import on Spark, in waves that fit the driver.

Pure: which tasks of an import run together, so that what they return fits into the driver. Spark
refuses a job whose results are larger than `spark.driver.maxResultSize`, and holds them in the
driver until the last one is there. A wave stays below a quarter of that: two of them are in
memory, one that is loaded and one that is read.
"""

from __future__ import annotations

import functools
import pickle
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from deltasql.errors import DeltaSqlError, StorageUnavailableError, TableImportError
from deltasql.imports.engines.child_process import pack, unpack
from deltasql.imports.read.tasks import CommitTask, LogReader, Rows, Task
from deltasql.spark_runtime.launch import ImportSession, first_cause
from deltasql.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark import SparkContext

# A wave's size as JSON: its rows are a quarter to three quarters of that when they are packed.
_WAVE_BYTES = 256 * 1024 * 1024
_WAVE_SHARE = 4
_TASKS_PER_CORE = 2

# Pickles and arrays of the JVM end at 2 GiB.
_MAX_RESULT = 2_000_000_000

# What Spark adds to a result: its own numbers about the task, and some bytes for each block.
_TASK_OVERHEAD = 16 * 1024
_RESULT_OVERHEAD = 64

_MAX_RESULT_SIZE = "spark.driver.maxResultSize"
_DEFAULT_MAX_RESULT_SIZE = "1g"
_TRIES = 4

# A job that is cancelled before it has begun begins all the same: say it again so soon.
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """The bytes that all tasks of a wave may return together, and that one alone may."""

    wave: int
    task: int

    @classmethod
    def of(cls, max_result_size: int) -> ResultLimits:
        """Return the limits under a `spark.driver.maxResultSize`; 0 is no limit."""
        overhead = max_result_size // _RESULT_OVERHEAD + _TASK_OVERHEAD
        task = min(max_result_size - overhead if max_result_size else _MAX_RESULT, _MAX_RESULT)
        return cls(min(_WAVE_BYTES, max(task, 0) // _WAVE_SHARE), max(task, 0))


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task, its number in the import, and how many bytes it may return."""

    number: int
    task: Task
    max_bytes: int


def cut_waves(
    tasks: Iterable[Task], cores: Callable[[], int], limits: ResultLimits
) -> Iterator[list[NumberedTask]]:
    """Cut tasks into waves, in order; a wave that is over its limit has one task only.

    The first wave is the smallest, because the driver waits for it idly.
    """
    wave: list[NumberedTask] = []
    size, max_tasks = 0, cores()
    for number, task in enumerate(tasks):
        task_size = task.size + _TASK_OVERHEAD
        if wave and (len(wave) >= max_tasks or size + task_size > limits.wave):
            yield _with_limits(wave, limits)
            wave, size, max_tasks = [], 0, _TASKS_PER_CORE * cores()
        wave.append(NumberedTask(number, task, 0))
        size += task_size
    if wave:
        yield _with_limits(wave, limits)


def _with_limits(wave: list[NumberedTask], limits: ResultLimits) -> list[NumberedTask]:
    """Give each task its estimate and an equal part of what is left of the wave's limit."""
    if len(wave) == 1:
        return [NumberedTask(wave[0].number, wave[0].task, limits.task)]
    spare = (limits.wave - sum(each.task.size for each in wave)) // len(wave)
    return [NumberedTask(each.number, each.task, each.task.size + spare) for each in wave]


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The rows of a task."""

    number: int
    packed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResultTooLarge:
    """The rows of a task are there, but are more bytes than it may return."""

    number: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that cannot be done, and why: a value, so that the error stays what it is."""

    number: int
    error: DeltaSqlError


Outcome: TypeAlias = PackedRows | ResultTooLarge | Failed


@dataclass(frozen=True, slots=True)
class ImportWork:
    """Does the tasks of a partition; travels to the workers with what it needs to read.

    `opener` opens the store; it may hold credentials, and shows none of them.
    """

    reader: LogReader
    opener: bytes = field(repr=False)

    @classmethod
    def of(cls, reader: LogReader) -> ImportWork:
        """Return the work with a store that each worker opens for itself."""
        return cls(replace(reader, open_store=_nothing), pickle.dumps(reader.open_store))

    def __call__(self, tasks: Iterable[NumberedTask]) -> Iterator[Outcome]:
        """Yield what became of each task."""
        opener = self.opener
        reader = replace(self.reader, open_store=lambda: _store(opener))
        for each in tasks:
            try:
                packed = pack(reader(each.task))
            except DeltaSqlError as error:
                yield Failed(each.number, error)
                continue
            if len(packed) > each.max_bytes:
                yield ResultTooLarge(each.number, len(packed))
            else:
                yield PackedRows(each.number, packed)


@functools.lru_cache(maxsize=4)
def _store(opener: bytes) -> ObjectStore:
    """Open a store once in a worker's life: the libraries below do not survive a fork."""
    store: ObjectStore = pickle.loads(opener)()  # noqa: S301 (our own, by way of Spark's closure)
    return store


def _nothing() -> ObjectStore:
    raise AssertionError("the store is opened in the worker")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Reads and folds in Spark's Python workers, which return their rows packed."""

    session: ImportSession
    # By the session's spark.driver.maxResultSize unless given.
    limits: ResultLimits | None = None
    name: str = field(default="spark", init=False)

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Generator[Rows]:
        """Yield what each task read; at most two waves of them are in memory.

        Raises:
            DeltaSqlError: the error of the first task that failed, after all rows before it.
            TableImportError: Spark itself failed, or the rows of one task are more than it returns.
        """
        context = self.session.context
        limits = self.limits or ResultLimits.of(_max_result_size(context))
        with (
            ThreadPoolExecutor(1, thread_name_prefix="deltasql-spark") as pool,
            _Job(self.session, ImportWork.of(reader), limits, pool) as job,
        ):
            waves = cut_waves(tasks, lambda: _cores(context), limits)
            ahead = job.submit(next(waves, []))
            while done := deque(ahead.result()):
                ahead = job.submit(next(waves, []))
                while done:  # each is let go of when it is loaded
                    yield job.rows(*done.popleft())

    def close(self) -> None:
        """Stop Spark if it was started for this engine."""
        self.session.close()


def _cores(context: SparkContext) -> int:
    try:
        return max(1, context.defaultParallelism)  # workers come and go
    except Exception as error:
        raise _import_error(error) from error


def _max_result_size(context: SparkContext) -> int:
    """Return the bytes that Spark lets the results of one job have; 0 for any number."""
    try:
        conf = context._jsc.sc().conf()  # noqa: SLF001 (only the JVM knows how sizes are spelled)
        return int(conf.getSizeAsBytes(_MAX_RESULT_SIZE, _DEFAULT_MAX_RESULT_SIZE))
    except Exception as error:
        raise _import_error(error) from error


_Done = list[tuple[NumberedTask, Outcome]]


@dataclass(slots=True)
class _Job:
    """Runs waves of one import, and runs again what a store did not answer."""

    session: ImportSession
    work: ImportWork
    limits: ResultLimits
    # all jobs come from its one thread: what Spark keeps by thread is not the caller's
    pool: ThreadPoolExecutor
    tag: str = field(default_factory=lambda: f"deltasql-{uuid.uuid4()}")
    is_stopped: bool = False
    _last: Future[_Done] = field(default_factory=Future)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let Spark drop what still runs; nobody will ask for it."""
        self.is_stopped = True
        while not (self._last.cancel() or self._last.done()):
            with suppress(Exception):  # a Spark that is gone runs nothing
                self.session.context.cancelJobsWithTag(self.tag)
            wait([self._last], _LOOK_AGAIN)

    def submit(self, wave: Sequence[NumberedTask]) -> Future[_Done]:
        """Begin a wave; its result is what became of each task, in their order."""
        self._last = self.pool.submit(self._run, wave)
        return self._last

    def rows(self, task: NumberedTask, outcome: Outcome) -> Rows:
        """Return the rows of a task.

        A task runs again, by itself, if the store did not answer or its rows have no room in its
        wave.
        """
        alone = replace(task, max_bytes=self.limits.task)
        for left in reversed(range(_TRIES)):
            if isinstance(outcome, PackedRows):
                return unpack(outcome.packed)
            if isinstance(outcome, ResultTooLarge) and task.max_bytes >= self.limits.task:
                raise _too_large(task.task, outcome.bytes, self.limits.task)
            if isinstance(outcome, Failed) and not (_is_passing(outcome.error) and left):
                raise outcome.error
            task = alone
            ((_, outcome),) = self.submit([task]).result()
        raise AssertionError("unreachable")

    def _run(self, wave: Sequence[NumberedTask]) -> _Done:
        for left in reversed(range(_TRIES)):
            try:
                return list(zip(wave, self._collect(wave) if wave else [], strict=True))
            except TableImportError:
                if self.session.tries_again or self.is_stopped or not left:
                    raise
        raise AssertionError("unreachable")

    def _collect(self, wave: Sequence[NumberedTask]) -> list[Outcome]:
        context = self.session.context
        first, last = wave[0].number, wave[-1].number
        try:
            context.addJobTag(self.tag)
            context.setInterruptOnCancel(interruptOnCancel=True)
            context.setJobDescription(f"deltasql import: tasks {first} to {last}")
            spread = context.parallelize(wave, len(wave))
            found: list[Outcome] = spread.mapPartitions(self.work).collect()
        except Exception as error:
            raise _import_error(error) from error
        by_number = {outcome.number: outcome for outcome in found}
        return [by_number[task.number] for task in wave]


def _is_passing(error: DeltaSqlError) -> bool:
    """Whether it may go well the next time, without anybody doing anything about it."""
    return isinstance(error, StorageUnavailableError)


def _too_large(task: Task, size: int, limit: int) -> TableImportError:
    if isinstance(task, CommitTask):
        first, last = task.files[0].version, task.files[-1].version
        source = f"version {first}" if first == last else f"versions {first} to {last}"
    else:
        source = f"a part of the checkpoint of version {task.version}"
    return TableImportError(
        f"The rows of {source} take {size} bytes; {_MAX_RESULT_SIZE} lets a task return {limit}.",
        hint=f"Start Spark with a larger {_MAX_RESULT_SIZE} "
        f"(`conf={{'{_MAX_RESULT_SIZE}': '4g'}}`), or import with `engine='local'`. What was "
        "loaded stays: go on with `resume=True`.",
    )


def _import_error(error: BaseException) -> DeltaSqlError:
    if isinstance(error, DeltaSqlError):
        return error
    return TableImportError(
        f"The Spark job failed: {first_cause(error)}",
        hint="What was loaded stays: mend the cause and run the import again with `resume=True`.",
    )
