"""What runs in Spark's Python workers: one task of an import, its rows left on the stage."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deltasql.errors import DeltaSqlError
from deltasql.importer.packing import pack
from deltasql.importer.tasks import LogReader, Task
from deltasql.jobs.staging import Staged, TaskStage
from deltasql.storage.port import ObjectStore

Numbered: TypeAlias = tuple[int, Task]


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that cannot be done, and why: a value, so that the error stays what it is."""

    task: int
    error: DeltaSqlError


Outcome: TypeAlias = Staged | Failed


@dataclass(frozen=True, slots=True)
class StagedWork:
    """Does the tasks of a partition; travels to the workers with what it needs to read and write.

    `opener` opens the store. It and the stage hold what opens doors, and show none of it.
    """

    reader: LogReader
    opener: bytes = field(repr=False)
    stage: TaskStage = field(repr=False)

    @classmethod
    def of(cls, reader: LogReader, stage: TaskStage) -> StagedWork:
        """Return the work with a store that each worker opens for itself."""
        return cls(replace(reader, open_store=_nothing), pickle.dumps(reader.open_store), stage)

    def __call__(self, tasks: Iterable[Numbered]) -> Iterator[Outcome]:
        """Yield what became of each task."""
        attempt = _attempt()
        opener = self.opener
        reader = replace(self.reader, open_store=lambda: _store(opener))
        for number, task in tasks:
            try:
                yield self.stage.put(number, attempt, pack(reader(task)))
            except DeltaSqlError as error:
                yield Failed(number, error)


@functools.lru_cache(maxsize=4)
def _store(opener: bytes) -> ObjectStore:
    """Open a store once in a worker's life: the libraries below do not survive a fork."""
    store: ObjectStore = pickle.loads(opener)()  # noqa: S301 (our own, by way of Spark's closure)
    return store


def _attempt() -> int:
    """Return a number that no other attempt of any task has in this application."""
    from pyspark import TaskContext  # noqa: PLC0415 (only in a worker)

    context = TaskContext.get()
    assert context is not None  # noqa: S101 (a task has one)
    return context.taskAttemptId()


def _nothing() -> ObjectStore:
    raise AssertionError("the store is opened in the worker")
