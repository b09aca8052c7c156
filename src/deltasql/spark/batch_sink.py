"""`df.write.format("deltasql")`: tasks write files, one SQL commit makes them rows of the table.

Spark makes the writer in one process, copies it to the tasks, and commits in yet another process.
The token of the commit is rolled when the writer is made, so that a commit that is sent again is
found. Nothing is ever deleted after a failure: what Spark takes for failed may be committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deltasql.protocol.schema import StructType
from deltasql.spark.sink_options import SinkOptions
from deltasql.spark.sink_plan import SinkPlan, commit_sink, plan_sink
from deltasql.spark.sink_tasks import FilesMessage, all_adds
from deltasql.spark.source_errors import told_with_code
from deltasql.spark.write_options import SESSION_OVERWRITE_MODE
from deltasql.spark.write_target import AlreadyThere, commit_options


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
