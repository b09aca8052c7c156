"""`format("deltasql")` as a sink, of batches and of streams: tasks write files, one SQL commit adds
them.

The commit records the query's own id and the number of the batch as an application of Delta
(`txn`). A batch that Spark runs again after a crash is found there and left out; its new files are
nobody's. Tasks know the id of the query; Spark makes a new writer for each batch, and another one
for its commit, so that the plan travels with the messages.

The rows of one task of Spark as new files of a table; the driver learns of them by a message. A
task that Spark runs twice writes files twice, under names of their own: those whose message Spark
hands to the commit count, and no others.

`df.write.format("deltasql")`: tasks write files, one SQL commit makes them rows of the table.
Spark makes the writer in one process, copies it to the tasks, and commits in yet another process.
The token of the commit is rolled when the writer is made, so that a commit that is sent again is
found. Nothing is ever deleted after a failure: what Spark takes for failed may be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from deltasql.api.write.in_flight import require_sizes
from deltasql.api.write.operations import Planned
from deltasql.api.write.table_write import CommitOptions, TableWrite
from deltasql.api.write.two_step import WriteTarget
from deltasql.clock import now_ms
from deltasql.crash import crash_point
from deltasql.data.constraints import missing_defaults, refuse_unwritable, row_checks
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import BadArgumentError, CorruptDataError, UnsupportedFeatureError
from deltasql.metastore.commit.request import CommitNote
from deltasql.protocol.actions import Add
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.schema.types import StructType
from deltasql.protocol.stats.parse import parse_stats
from deltasql.spark.session.address import open_catalog
from deltasql.spark.session.spark_session import told_with_code
from deltasql.spark.source.source_options import SinkOptions
from deltasql.spark.write.write_options import SESSION_OVERWRITE_MODE, WriteOptions
from deltasql.spark.write.write_target import (
    AlreadyThere,
    commit_options,
    find_target,
    fit,
    plan_write,
)
from deltasql.storage.location import parse_location
from deltasql.storage.resolve import StoreOpener

_HINT = "Write with deltasql.spark.write, where Spark itself makes and checks the values."

# By this name Spark tells its tasks which streaming query they work for.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class FilesMessage(WriterCommitMessage):
    """What one task has written: the lines of its adds, and how many rows it was given."""

    lines: bytes
    rows: int

    @property
    def adds(self) -> list[Add]:
        """The files."""
        found = decode_commit(self.lines, version=None)
        return [action for action in found if isinstance(action, Add)]


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What a task must know to write files."""

    opener: StoreOpener
    spec: WriteSpec

    def write(self, batches: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Write all rows of a task; no rows, no files.

        Raises:
            SchemaError, ConstraintViolationError: the rows do not fit.
            CorruptDataError: the files hold another number of rows.
        """
        first = next(batches, None)
        if first is None:
            return FilesMessage(b"", 0)
        counted = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal counted
            batch = first
            while batch is not None:
                counted += batch.num_rows
                yield batch
                batch = next(batches, None)

        store = self.opener()
        spec = replace(self.spec, now_ms=now_ms())
        try:
            reader = pa.RecordBatchReader.from_batches(first.schema, rows())
            adds = write_files(reader, spec, store)
        finally:
            store.close()
        require_rows(adds, counted)
        return FilesMessage(serialize_actions(adds), counted)


def all_adds(messages: list[WriterCommitMessage | None]) -> list[Add]:
    """Return the files of all tasks.

    Raises:
        CorruptDataError: a task has told nothing, or other rows than its files hold.
    """
    adds: list[Add] = []
    for message in messages:
        if not isinstance(message, FilesMessage):
            raise CorruptDataError("A task of the write has told nothing of its files.")
        require_rows(message.adds, message.rows)
        adds += message.adds
    return adds


def require_rows(adds: list[Add], rows: int) -> None:
    """Make sure that the footers of files tell as many rows as there were.

    Raises:
        CorruptDataError: they do not.
    """
    stats = [parse_stats(add.stats) for add in adds]
    held = sum((one.num_records or 0) for one in stats if one is not None)
    if held != rows:
        raise CorruptDataError(
            f"A task wrote {rows} rows, but its files hold {held}.",
            hint="Nothing was committed.",
        )


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The table as it was when the write began, and how tasks write to it."""

    target: WriteTarget
    output: TaskOutput


def plan_sink(options: SinkOptions, given: StructType) -> SinkPlan | AlreadyThere:
    """Plan a write of rows with these columns.

    Raises:
        TableNotFoundError, TableExistsError, SchemaError, UnsupportedFeatureError: it cannot be.
    """
    how = options.write
    with open_catalog(options.uri, **_opening(how)) as catalog:
        target = find_target(catalog, options.table, given, how)
        if isinstance(target, AlreadyThere):
            return target
        _refuse_memory(target)
        staged = catalog.writes.stage(target)
        fitted = fit(staged, given, how)
        spec = staged.write_spec(fitted, data_change=how.data_change)
        spec = replace(
            spec,
            compression=how.compression,
            max_records_per_file=how.max_records_per_file,
            zone=how.zone,
        )
        _require_ours(spec, given)
        return SinkPlan(target, TaskOutput(catalog.store_opener(target.row.location), spec))


def commit_sink(
    options: SinkOptions,
    given: StructType,
    target: WriteTarget,
    adds: list[Add],
    commit: CommitOptions,
    *,
    noted: Callable[[Planned], Planned] = lambda planned: planned,
) -> int:
    """Commit the files of all tasks, once, whatever happened to the last attempt.

    Raises:
        CommitConflictError: another commit since the plan contradicts this one.
    """

    def stage(staged: TableWrite) -> None:
        fitted = fit(staged, given, options.write)
        _require_reach(target, adds, staged)
        staged.stage(noted(plan_write(staged.snapshot, adds, options.write)), fitted)
        crash_point("before-sink-commit")

    with open_catalog(options.uri, **_opening(options.write)) as catalog:
        version = catalog.writes.commit(target, stage, commit)
    crash_point("after-sink-commit")
    return version


def _opening(how: WriteOptions) -> dict[str, Any]:
    return {"storage_options": how.storage_options, "may_create": how.location is not None}


def _refuse_memory(target: WriteTarget) -> None:
    """What a task keeps in its memory is gone with it."""
    if parse_location(target.row.location).scheme == "memory":
        raise UnsupportedFeatureError(
            f"Table {target.row.full_name} lies in the memory of one process, which Spark's tasks "
            "do not share.",
            hint="Write with deltasql.spark.write in that process.",
            table=target.row.full_name,
        )


def _require_reach(target: WriteTarget, adds: list[Add], staged: TableWrite) -> None:
    """Make sure that tasks wrote to the disk that the table is on, not to one of the same name."""
    if parse_location(target.row.location).scheme == "file":
        require_sizes(adds, staged.store)


def _require_ours(spec: WriteSpec, given: StructType) -> None:
    """Refuse before any task runs what our own writer would refuse in each of them."""
    try:
        refuse_unwritable(spec.schema, [*given.names, *missing_defaults(spec.schema, given.names)])
        row_checks(spec.schema, spec.configuration, spec.zone)
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(error.message, hint=_HINT, **error.context) from error


@dataclass(frozen=True)
class BatchMessage(FilesMessage):
    """What one task has written, and the session's partitionOverwriteMode: only tasks know it."""

    overwrite_mode: str | None


@dataclass(frozen=True)
class BatchSink(DataSourceArrowWriter):
    """One write, which is one commit; without a plan there is nothing to write."""

    options: SinkOptions
    given: StructType
    plan: SinkPlan | None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        if self.plan is None:
            return FilesMessage(b"", 0)
        with told_with_code():
            written = self.plan.output.write(iterator)
            return BatchMessage(written.lines, written.rows, _session_mode())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks have written."""
        if self.plan is None:
            return
        with told_with_code():
            adds = all_adds(messages)
            # every write has at least one task
            modes = [one.overwrite_mode for one in messages if isinstance(one, BatchMessage)]
            how = self.options.write.in_session(modes[0] if modes else None)
            options = replace(self.options, write=how)
            commit_sink(options, self.given, self.plan.target, adds, commit_options(how))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: vacuum knows what no version needs."""


def batch_sink(options: SinkOptions, given: StructType, token: str) -> BatchSink:
    """Plan a write; `token` is what its commit is known by unless the caller has chosen one."""
    how = options.write
    known = replace(options, write=replace(how, commit_id=how.commit_id or token))
    plan = plan_sink(known, given)
    return BatchSink(known, given, None if isinstance(plan, AlreadyThere) else plan)


def _session_mode() -> str | None:
    """Return the session's mode of partition overwrites: a query's settings go with its tasks."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(SESSION_OVERWRITE_MODE)


@dataclass(frozen=True)
class StreamMessage(FilesMessage):
    """The files of a task, with what they were written for."""

    query_id: str | None
    target: WriteTarget


@dataclass(frozen=True)
class StreamingSink(DataSourceStreamArrowWriter):
    """The writer of one batch, or of its commit."""

    options: SinkOptions
    given: StructType
    plan: SinkPlan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        with told_with_code():
            found = self.plan.output.write(iterator)
            return StreamMessage(found.lines, found.rows, _query_id(), self.plan.target)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commit a batch, unless it was committed before."""
        with told_with_code():
            adds = all_adds(messages)
            told = [message for message in messages if isinstance(message, StreamMessage)]
            target = _same_target(told)
            app_id = self.options.app_id or _same_query(told)
            if not adds and target.new is None and self.options.write.mode == "append":
                return  # no row, no version; run again, the batch is as empty
            user = self.options.write.user_metadata
            how = CommitOptions(
                commit_id=f"{app_id}/{batchId}", user_metadata=user, txn=(app_id, batchId)
            )
            note = _note(app_id, batchId, self.options)
            commit_sink(
                self.options,
                self.given,
                target,
                adds,
                how,
                noted=lambda planned: _noted(planned, note),
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Leave everything as it is: vacuum knows what no version needs."""


def streaming_sink(options: SinkOptions, given: StructType) -> StreamingSink:
    """Plan one batch of a stream."""
    plan = plan_sink(options, given)
    assert isinstance(plan, SinkPlan)  # noqa: S101 (no token and no mode here spares a table)
    return StreamingSink(options, given, plan)


def _query_id() -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def _same_target(told: list[StreamMessage]) -> WriteTarget:
    targets = {message.target.row.table_id: message.target for message in told}
    if len(targets) != 1:
        raise CorruptDataError("The tasks of a batch have written to different tables.")
    return next(iter(targets.values()))


def _same_query(told: list[StreamMessage]) -> str:
    found = {message.query_id for message in told}
    (query_id,) = found if len(found) == 1 else (None,)
    if not query_id:
        raise BadArgumentError(
            "Spark does not tell which query the batch belongs to, so that it could not be "
            "known again.",
            hint="Give the query a name of its own by the option txnAppId.",
        )
    return query_id


def _note(app_id: str, batch_id: int, options: SinkOptions) -> CommitNote:
    """Return the words of Delta's own sink."""
    mode = "Complete" if options.write.mode == "overwrite" else "Append"
    parameters = {"outputMode": mode, "queryId": app_id, "epochId": str(batch_id)}
    return CommitNote("STREAMING UPDATE", parameters)


def _noted(planned: Planned, note: CommitNote) -> Planned:
    return replace(planned, note=replace(note, metrics=planned.note.metrics))
