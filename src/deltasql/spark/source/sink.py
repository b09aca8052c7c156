"""`df.writeStream.format("deltasql")`: every batch is one commit, and every batch counts once.

The commit records the query's own id and the number of the batch as an application of Delta
(`txn`). A batch that Spark runs again after a crash is found there and left out; its new files are
nobody's. Tasks know the id of the query; Spark makes a new writer for each batch, and another one
for its commit, so that the plan travels with the messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from deltasql.catalog.commit_request import CommitNote
from deltasql.client.plans import Planned
from deltasql.client.staging import CommitOptions
from deltasql.client.write_desk import WriteTarget
from deltasql.errors import BadArgumentError, CorruptDataError
from deltasql.protocol.schema import StructType
from deltasql.spark.sink_options import SinkOptions
from deltasql.spark.sink_plan import SinkPlan, commit_sink, plan_sink
from deltasql.spark.sink_tasks import FilesMessage, all_adds
from deltasql.spark.source_errors import told_with_code

# By this name Spark tells its tasks which streaming query they work for.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class BatchMessage(FilesMessage):
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
            return BatchMessage(found.lines, found.rows, _query_id(), self.plan.target)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Commit a batch, unless it was committed before."""
        with told_with_code():
            adds = all_adds(messages)
            told = [message for message in messages if isinstance(message, BatchMessage)]
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


def _same_target(told: list[BatchMessage]) -> WriteTarget:
    targets = {message.target.row.table_id: message.target for message in told}
    if len(targets) != 1:
        raise CorruptDataError("The tasks of a batch have written to different tables.")
    return next(iter(targets.values()))


def _same_query(told: list[BatchMessage]) -> str:
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
