"""`readStream.format("deltasql")`: the rows that come to a table, or its change feed, in batches.

Spark keeps one process for the plan of a stream and starts others for its tasks; a task knows
nothing but its files. Offsets and files are told by SQL; nothing is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from deltasql.spark.session.spark_session import told_with_code
from deltasql.spark.source.scan_tasks import ScanTask, scan_tasks
from deltasql.spark.source.source_options import SourceOptions
from deltasql.spark.streaming.batches import BatchLimit, StreamOffset, StreamPlan
from deltasql.spark.streaming.commit_rules import Followed, open_followed
from deltasql.spark.streaming.stream_options import FollowOptions

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # PySpark 4.1
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for a class that is not there."""


def default_limit(options: FollowOptions) -> Any:
    """Return the limit that Spark shows and gives back; our own are kept, whatever it is."""
    if options.max_files is not None:
        return ReadMaxFiles(options.max_files)
    return ReadMaxBytes(options.max_bytes or 0)


def room_of(options: FollowOptions, limit: Any = None) -> BatchLimit:
    """Return how much a batch takes: no limit where Spark wants all there is."""
    if HAS_LIMITS and isinstance(limit, ReadAllAvailable):
        return BatchLimit()
    return BatchLimit(options.max_files, options.max_bytes)


class TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one table as a stream; the catalog is opened when the first offset is asked for."""

    def __init__(self, source: SourceOptions, options: FollowOptions, schema: StructType) -> None:
        self._source = source
        self._options = options
        self._schema = schema
        self._opened: tuple[ExitStack, Followed, StreamPlan] | None = None
        # what PySpark 4.1 does not tell: where the next batch begins, and where the first one ends
        self._position: StreamOffset | None = None
        self._first_end: StreamOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave what is opened in its process."""
        return {**vars(self), "_opened": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark names it)
        """Return where a new query begins."""
        with told_with_code():
            # PySpark 4.1 asks for the end first: the beginning must not lie behind it
            newest = None if self._first_end is None else self._first_end.touched
            return self._plan.initial(newest).to_json()

    def latestOffset(  # noqa: N802 (Spark names it)
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return how far the next batch goes.

        PySpark 4.1 tells no start: the first batch of a run has no limit there.
        """
        with told_with_code():
            begin = self._position if start is None else StreamOffset.from_json(start)
            if begin is None:
                self._first_end = self._plan.newest()
                return self._first_end.to_json()
            return self._plan.latest(begin, room_of(self._options, limit)).to_json()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 (Spark names it)
        """Return the limit of the options."""
        return default_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark names it)
        """Return how far the table is, for the query's progress."""
        with told_with_code():
            return self._plan.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark names it)
        """Read what is there now and nothing later."""
        with told_with_code():
            self._plan.stop_at_head()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        with told_with_code():
            begin, self._position = StreamOffset.from_json(start), StreamOffset.from_json(end)
            files = self._plan.files(begin, self._position)
            return scan_tasks(self._open()[1].rows, files)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's files."""
        if not isinstance(partition, ScanTask):  # where there is no task, Spark makes one
            return
        with told_with_code():
            yield from partition.batches()

    def stop(self) -> None:
        """Let go of the catalog."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    @property
    def _plan(self) -> StreamPlan:
        return self._open()[2]

    def _open(self) -> tuple[ExitStack, Followed, StreamPlan]:
        if self._opened is None:
            with ExitStack() as stack:
                followed = stack.enter_context(
                    open_followed(self._source, self._options, self._schema)
                )
                plan = StreamPlan(followed.database, followed.table, followed.follower)
                self._opened = (stack.pop_all(), followed, plan)
        return self._opened
