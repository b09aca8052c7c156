"""The import's tasks on Spark, in waves: one is read while the driver loads the one before."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Self

from deltasql.errors import (
    CatalogUnavailableError,
    DeltaSqlError,
    StorageUnavailableError,
    TableImportError,
)
from deltasql.importer.packing import unpack
from deltasql.importer.tasks import LogReader, Rows, Task
from deltasql.jobs.causes import first_cause
from deltasql.jobs.session import ImportSession
from deltasql.jobs.staging import Stage, Staged, StageGoneError, Staging
from deltasql.jobs.work import Failed, Numbered, Outcome, StagedWork

if TYPE_CHECKING:
    from pyspark import SparkContext

# What is staged and not yet loaded waits on a disk or in the database: two waves at most.
_WAVE = 2
_TRIES = 4
# A job that is cancelled before it has begun begins all the same: say it again so soon.
_LOOK_AGAIN = 0.2
# What may go well the next time, without anybody doing anything about it.
_PASSING = (CatalogUnavailableError, StorageUnavailableError, StageGoneError)


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Reads and folds in Spark's Python workers; only references come back through Spark."""

    session: ImportSession
    staging: Staging
    name: str = field(default="spark", init=False)

    def run(self, reader: LogReader, tasks: Iterable[Task]) -> Generator[Rows]:
        """Yield what each task read.

        Raises:
            DeltaSqlError: what the first task that failed said, after all rows before it.
            TableImportError: Spark itself failed; tells the cause in one line.
        """
        with (
            self.staging.open() as stage,
            ThreadPoolExecutor(1, thread_name_prefix="deltasql-spark") as pool,
            _Job(self.session, stage, StagedWork.of(reader, stage.for_tasks), pool) as job,
        ):
            waves = _waves(enumerate(tasks), self.session.context)
            ahead = job.submit(next(waves, []))
            while done := ahead.result():
                ahead = job.submit(next(waves, []))
                for task, outcome in done:
                    yield job.rows(task, outcome)

    def close(self) -> None:
        """Stop Spark if it was started for this engine."""
        self.session.close()


def _waves(tasks: Iterable[Numbered], context: SparkContext) -> Iterator[list[Numbered]]:
    """Cut the tasks; the first wave is the smallest, because the driver waits for it idly."""
    left = iter(tasks)
    each = 1
    while wave := list(islice(left, each * _cores(context))):
        yield wave
        each = _WAVE


def _cores(context: SparkContext) -> int:
    try:
        return max(1, context.defaultParallelism)  # workers come and go
    except Exception as error:
        raise _told(error) from error


_Done = list[tuple[Numbered, Outcome]]


@dataclass(slots=True)
class _Job:
    """Runs waves of one import, and runs again what went wrong in passing."""

    session: ImportSession
    stage: Stage
    work: StagedWork
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

    def submit(self, wave: Sequence[Numbered]) -> Future[_Done]:
        """Begin a wave; its result is what became of each task, in their order."""
        self._last = self.pool.submit(self._run, wave)
        return self._last

    def rows(self, task: Numbered, outcome: Outcome) -> Rows:
        """Return the rows of a task; what got lost on the way is read again."""
        for left in reversed(range(_TRIES)):
            try:
                return unpack(self.stage.take(_staged(outcome)))
            except _PASSING:
                if not left:
                    raise
                self.stage.reopen()
                ((_, outcome),) = self.submit([task]).result()
        raise AssertionError("unreachable")

    def _run(self, wave: Sequence[Numbered]) -> _Done:
        for left in reversed(range(_TRIES)):
            try:
                return list(zip(wave, self._collect(wave) if wave else [], strict=True))
            except TableImportError:
                if self.session.tries_again or self.is_stopped or not left:
                    raise
        raise AssertionError("unreachable")

    def _collect(self, wave: Sequence[Numbered]) -> list[Outcome]:
        context = self.session.context
        try:
            context.addJobTag(self.tag)
            context.setInterruptOnCancel(interruptOnCancel=True)
            context.setJobDescription(f"deltasql import: tasks {wave[0][0]} to {wave[-1][0]}")
            spread = context.parallelize(wave, len(wave))
            found: list[Outcome] = spread.mapPartitions(self.work).collect()
        except Exception as error:
            raise _told(error) from error
        order = {one.task: one for one in found}
        return [order[number] for number, _ in wave]


def _staged(outcome: Outcome) -> Staged:
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


def _told(error: BaseException) -> DeltaSqlError:
    if isinstance(error, DeltaSqlError):
        return error
    return TableImportError(
        f"The Spark job failed: {first_cause(error)}",
        hint="What was loaded stays: mend the cause and run the import again with --resume.",
    )
