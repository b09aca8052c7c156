"""The units of an import: what one task reads, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from deltasql.imports.load.window import ADD_SCHEMA, HASH, REMOVE_SCHEMA, VersionWindow
from deltasql.imports.plan.commit_files import CommitFiles
from deltasql.imports.read.parse import read_window
from deltasql.imports.read.rows import check_files
from deltasql.imports.validate.file_history import events_of
from deltasql.log.checkpoint_reader import CheckpointPart, StateBatch, read_files
from deltasql.protocol.actions import file_hashes
from deltasql.storage.port import ObjectStore

# A task's rows are in memory as a whole: as JSON they are about so big.
TASK_BYTES = 16 * 1024 * 1024
TASK_VERSIONS = 4_000
# The JSON of a segment. A killed import begins with its last segment again, and what is known of a
# segment's files is in memory. Of a table that can be read, a segment is one transaction.
SEGMENT_BYTES = 512 * 1024 * 1024
VISIBLE_SEGMENT_BYTES = 64 * 1024 * 1024
# About the bytes of a checkpoint's row as JSON.
_STATE_ROW_BYTES = 512


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
    """The files of a part as they are at its version, and its tombstones."""

    number: int
    version: int
    adds: pa.Table
    removes: pa.Table
    events: pa.Table

    @property
    def files(self) -> int:
        """The number of files and tombstones."""
        count: int = self.adds.num_rows + self.removes.num_rows
        return count


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
        return _state_part(task, list(read_files(store, task.part)))


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


def cut_segments(tasks: Sequence[CommitTask], *, is_visible: bool) -> Iterator[list[CommitTask]]:
    """Put tasks together to segments, in order; `is_visible`: the table can be read."""
    most_bytes = VISIBLE_SEGMENT_BYTES if is_visible else SEGMENT_BYTES
    segment: list[CommitTask] = []
    size = 0
    for task in tasks:
        if segment and size + task.size > most_bytes:
            yield segment
            segment, size = [], 0
        segment.append(task)
        size += task.size
    if segment:
        yield segment


def _state_part(task: StateTask, batches: Sequence[StateBatch]) -> StatePart:
    adds = _rows([batch.adds for batch in batches], ADD_SCHEMA, "added_version", task.version)
    removes = _rows(
        [batch.removes for batch in batches], REMOVE_SCHEMA, "removed_version", task.version
    )
    check_files(adds, "added_version")
    check_files(removes, "removed_version")
    return StatePart(task.number, task.version, adds, removes, events_of(adds, task.version))


def _rows(
    batches: Sequence[pa.RecordBatch], schema: pa.Schema, version_column: str, version: int
) -> pa.Table:
    """Return the files of a checkpoint in SQL's columns, as if its version had brought them all."""
    columns: dict[str, list[pa.Array]] = {name: [] for name in schema.names}
    for batch in batches:
        added = _hashes(batch) | {
            version_column: pa.repeat(pa.scalar(version, pa.int64()), batch.num_rows)
        }
        for name in schema.names:
            columns[name].append(added[name] if name in added else batch.column(name))
    arrays = [pa.chunked_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _hashes(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    paths, vectors = (rows.column(name).to_pylist() for name in ("path", "dv_id"))
    found = [file_hashes(path, dv_id) for path, dv_id in zip(paths, vectors, strict=True)]
    return {
        "file_key": pa.array([key for key, _ in found], HASH),
        "path_hash": pa.array([path_hash for _, path_hash in found], HASH),
    }
