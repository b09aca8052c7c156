"""What runs in Spark's Python workers: one task of an import, its rows returned as bytes."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deltasql.errors import DeltaSqlError
from deltasql.importer.packing import pack
from deltasql.importer.tasks import LogReader
from deltasql.jobs.waves import NumberedTask
from deltasql.storage.port import ObjectStore


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
