"""The units of an import: what one task reads, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import FILE_SCHEMA, HASH, VersionWindow
from deltasql.importer.commit_files import CommitFiles
from deltasql.importer.parse import read_window
from deltasql.importer.rows import check_files
from deltasql.log.checkpoint_rows import CheckpointPart, StateBatch, read_files
from deltasql.parity.events import events_of
from deltasql.protocol.identity import file_hashes
from deltasql.storage.port import ObjectStore

# A task's rows are in memory as a whole: as JSON they are about so big.
TASK_BYTES = 24 * 1024 * 1024
TASK_VERSIONS = 4_000
# About the bytes of a checkpoint's row as JSON.
_STATE_ROW_BYTES = 512
# What one transaction writes, as JSON: a killed import begins with the last such piece again.
SEGMENT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CommitTask:
    """Versions in a row, to become one window."""

    files: CommitFiles

    @property
    def size(self) -> int:
        """The bytes of its commits."""
        return self.files.bytes


@dataclass(frozen=True, slots=True)
class StateTask:
    """A part of the checkpoint that a history stands on."""

    part: CheckpointPart
    number: int
    version: int

    @property
    def size(self) -> int:
        """About the bytes that its files would take as JSON."""
        return self.part.rows * _STATE_ROW_BYTES


@dataclass(frozen=True, slots=True)
class StatePart:
    """The files of a part, as they are at its version."""

    number: int
    version: int
    files: pa.Table
    events: pa.Table


Task: TypeAlias = CommitTask | StateTask
Rows: TypeAlias = VersionWindow | StatePart


@dataclass(frozen=True, slots=True)
class LogReader:
    """Does a task; where it can be pickled, on any machine that reaches the store.

    `elsewhere` opens the store in another process, where `open_store` cannot.
    """

    open_store: Callable[[], ObjectStore]
    lenient: bool = False
    elsewhere: Callable[[], ObjectStore] | None = None

    def __call__(self, task: Task) -> Rows:
        """Return what the task is to read.

        Raises:
            SourceChangedError: the source is not what it was when it was listed.
            MalformedActionError, UnsupportedFeatureError: it cannot be understood.
        """
        store = self.open_store()
        if isinstance(task, CommitTask):
            return read_window(store, task.files, lenient=self.lenient)
        tables = [_state_rows(batch, task.version) for batch in read_files(store, task.part)]
        files = pa.concat_tables([FILE_SCHEMA.empty_table(), *tables])
        check_files(files, "added_version")
        live = files.filter(pc.is_valid(files["added_version"]))
        return StatePart(task.number, task.version, files, events_of(live, task.version))


def cut_tasks(commits: CommitFiles) -> Iterator[CommitTask]:
    """Share out the commits, in order, in pieces that fit into memory."""
    start, size = 0, 0
    for at, each in enumerate(commits.sizes):
        if at > start and (size + each > TASK_BYTES or at - start >= TASK_VERSIONS):
            yield CommitTask(commits[start:at])
            start, size = at, 0
        size += each
    if start < len(commits):
        yield CommitTask(commits[start:])


def cut_segments(tasks: Sequence[CommitTask]) -> Iterator[list[CommitTask]]:
    """Put tasks together, in order, that one transaction writes."""
    segment: list[CommitTask] = []
    size = 0
    for task in tasks:
        if segment and size + task.size > SEGMENT_BYTES:
            yield segment
            segment, size = [], 0
        segment.append(task)
        size += task.size
    if segment:
        yield segment


def _state_rows(batch: StateBatch, version: int) -> pa.Table:
    live = _filled(batch.adds, {"added_version": version})
    dead = _filled(batch.removes, {"removed_version": version, "removal": "remove"})
    return pa.concat_tables([live, dead])


def _filled(rows: pa.RecordBatch, constants: dict[str, int | str]) -> pa.Table:
    arrays = []
    hashes = _hashes(rows)
    for field in FILE_SCHEMA:
        if field.name in hashes:
            arrays.append(hashes[field.name])
        elif field.name in rows.schema.names:
            arrays.append(rows.column(field.name).cast(field.type))
        elif field.name == "is_first":
            arrays.append(pa.repeat(pa.scalar(value=True), rows.num_rows))
        else:
            value = pa.scalar(constants.get(field.name), field.type)
            arrays.append(pa.repeat(value, rows.num_rows))
    return pa.Table.from_arrays(arrays, schema=FILE_SCHEMA)


def _hashes(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    paths, vectors = (rows.column(name).to_pylist() for name in ("path", "dv_id"))
    found = [file_hashes(path, dv_id) for path, dv_id in zip(paths, vectors, strict=True)]
    return {
        "file_key": pa.array([key for key, _ in found], HASH),
        "path_hash": pa.array([path_hash for _, path_hash in found], HASH),
    }
