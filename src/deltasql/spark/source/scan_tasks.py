"""Files on their way to Spark's Python tasks, which read them with our own scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from deltasql.data.scanner import ScanSpec, scan_files
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.changes import ChangedFile, FollowedCommit
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.schema.columns import PHYSICAL_NAME
from deltasql.protocol.schema.types import Primitive, StructField, StructType
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import StoreOpener

# What one task reads: so many bytes, or so many files. A batch of a stream has few files, and its
# tasks have fewer, so that there are several.
_TASK_BYTES = 128 * 1024 * 1024
_TASK_FILES = 1_000
_FOLLOWED_FILES = 100

CHANGE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
MARKS = (CHANGE, VERSION, TIME)
_TEXT, _LONG = pa.string(), pa.int64()
_TIME = pa.timestamp("us", "UTC")
CHANGED_FILES = pa.schema(
    [
        ("path", _TEXT),
        ("size", _LONG),
        ("partition_values", _TEXT),
        ("deletion_vector", _TEXT),
        ("among", _TEXT),
        ("change", _TEXT),
        ("version", _LONG),
        ("timestamp", _LONG),
    ]
)
# The files of changes hold this column beside the table's own, in mapped tables too.
_OWN_CHANGE = StructField(CHANGE, Primitive("string"), metadata={PHYSICAL_NAME: CHANGE})


@dataclass(frozen=True)
class RowsToRead:
    """What all tasks of one read share; the rows of a feed are marked with what happened.

    `where` leaves out rows for which it is not true.
    """

    opener: StoreOpener
    spec: ScanSpec
    target: pa.Schema
    is_feed: bool = False
    where: Predicate | None = None


@dataclass(frozen=True)
class ScanTask(InputPartition):
    """The files of one task, as Arrow."""

    what: RowsToRead
    files: bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark was told of them."""
        files = pa.ipc.open_stream(self.files).read_all()
        store = self.what.opener()
        for group in _runs(files) if self.what.is_feed else [files]:
            yield from self._group(group, store)

    def _group(self, files: pa.Table, store: ObjectStore) -> Iterator[pa.RecordBatch]:
        what = self.what
        wanted = [name for name in what.target.names if not what.is_feed or name not in MARKS]
        told = files.slice(0, 1).to_pylist()[0]
        spec = what.spec
        if what.is_feed and told["change"] is None:
            spec = replace(spec, schema=StructType((*spec.schema.fields, _OWN_CHANGE)))
            wanted.append(CHANGE)
        for batch in scan_files(files, spec, store, columns=wanted, predicate=what.where):
            marked = _marked(batch, what.target.names, told) if what.is_feed else batch
            yield marked.cast(what.target)


def task_spec(snapshot: Snapshot, zone: tzinfo) -> ScanSpec:
    """Return what a task must know of a table: it reads its files one after the other."""
    metadata = snapshot.metadata
    return ScanSpec(
        snapshot.schema,
        metadata.partition_columns,
        metadata.configuration,
        threads=1,
        zone=zone,
    )


def scan_tasks(what: RowsToRead, files: pa.Table) -> Sequence[ScanTask]:
    """Share files out among tasks."""
    return [ScanTask(what, packed(part)) for part in shared_out(files, _FOLLOWED_FILES)]


def changed_files(commit: FollowedCommit, files: Sequence[ChangedFile]) -> pa.Table:
    """Return files of a commit as a table of files."""
    rows = [
        {
            "path": one.path,
            "size": one.size,
            "partition_values": msgspec.json.encode(one.partition_values or {}).decode(),
            "deletion_vector": _json(one.deletion_vector),
            "among": _json(one.among),
            "change": one.change,
            "version": commit.version,
            "timestamp": commit.timestamp,
        }
        for one in files
    ]
    return pa.Table.from_pylist(rows, CHANGED_FILES)


def shared_out(files: pa.Table, most: int = _TASK_FILES) -> Iterator[pa.Table]:
    """Yield the files of each task, at most so many."""
    start, size = 0, 0
    for at, each in enumerate(files["size"].to_pylist()):
        if at > start and (size + each > _TASK_BYTES or at - start >= most):
            yield files.slice(start, at - start)
            start, size = at, 0
        size += each
    if start < files.num_rows:
        yield files.slice(start)


def packed(files: pa.Table) -> bytes:
    """Return files as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return bytes(sink.getvalue())


def _runs(files: pa.Table) -> Iterator[pa.Table]:
    """Yield neighbours of which the same is told."""
    told = list(zip(files["version"].to_pylist(), files["change"].to_pylist(), strict=True))
    start = 0
    for at in range(1, len(told) + 1):
        if at == len(told) or told[at] != told[start]:
            yield files.slice(start, at - start)
            start = at


def _marked(batch: pa.RecordBatch, names: Sequence[str], told: dict[str, Any]) -> pa.RecordBatch:
    constants = {
        CHANGE: pa.scalar(told["change"], _TEXT),
        VERSION: pa.scalar(told["version"], _LONG),
        TIME: pa.scalar(told["timestamp"] * 1000, _TIME),
    }
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [
        columns[name] if name in columns else pa.repeat(constants[name], batch.num_rows)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
