"""The change feed of a table between two versions: what happened to its rows, read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from deltasql.api.detail import to_ms
from deltasql.api.table import Table
from deltasql.errors import BadArgumentError, VersionNotFoundError
from deltasql.metastore.snapshot.commit_feed import open_feed
from deltasql.metastore.table_row import TableRow
from deltasql.settings import Settings
from deltasql.spark.session.address import open_table
from deltasql.spark.session.spark_session import session_zone, told_with_code, zone_name
from deltasql.spark.source.scan_tasks import CHANGED_FILES, ScanTask, changed_files, scan_tasks
from deltasql.spark.source.source_options import SOURCE, SourceOptions, table_options
from deltasql.spark.streaming.commit_rules import Followed, open_followed, starting_version
from deltasql.spark.streaming.stream_options import (
    END,
    FEED,
    START,
    FollowOptions,
    VersionOrTimestamp,
)


def read_changes(
    spark: SparkSession,
    uri: str | None = None,
    table: str | None = None,
    *,
    start: int | str | datetime,
    end: int | str | datetime | None = None,
    settings: Settings | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return what happened to the rows of a table from one version to another, both included.

    `start` and `end` are versions, or times: then the first version that is not before `start`,
    and the last one that is not after `end`; times that name no zone are those of the session's.
    Without `end` it is the newest version now. Rows come with _change_type, _commit_version and
    _commit_timestamp, as from Delta's change feed.

    Raises:
        ChangeDataMissingError: delta.enableChangeDataFeed was not set at one of the versions.
        VersionNotFoundError: the table has no version to begin with.
        SchemaError: the rows of a version cannot be read by the table's columns.
    """
    zone = session_zone(spark)
    begin, last = _moment(start, zone), None if end is None else _moment(end, zone)
    with open_table(uri, table, settings=settings, storage_options=storage_options) as (_, found):
        options = FollowOptions(is_feed=True, start=begin, end=last)
        span = change_range(found, found.refresh(), options)
        given = table_options(uri, found.name, storage_options, zone_name(spark))
    told = {FEED: "true", START: str(span[0]), END: str(span[1])}
    return spark.read.format(SOURCE).options(**given, **told).load()


def change_range(table: Table, row: TableRow, options: FollowOptions) -> tuple[int, int]:
    """Return the first and the last version; an end beyond the newest version is the newest.

    Raises:
        VersionNotFoundError: there is none to begin with, or none so old to end with.
        BadArgumentError: the end is before the beginning.
    """
    assert options.start is not None  # noqa: S101 (checked with the options)
    first = starting_version(table, row, options.start)
    last = row.current_version if options.end is None else _last(table, row, options.end)
    if last < first:
        raise BadArgumentError(
            f"The change feed from version {first} to {last} ends before it begins."
        )
    return first, last


def plan_changes(
    source: SourceOptions, options: FollowOptions, schema: StructType
) -> ChangesReader:
    """Plan a read of the change feed in SQL."""
    with open_followed(source, options, schema) as followed:
        return ChangesReader(tuple(scan_tasks(followed.rows, _files(followed, options))))


@dataclass(frozen=True)
class ChangesReader(DataSourceReader):
    """Reads what was planned."""

    tasks: tuple[ScanTask, ...]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        return list(self.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's files, each with what happened to it."""
        if not isinstance(partition, ScanTask):  # where there is no task, Spark makes one
            return
        with told_with_code():
            yield from partition.batches()


def _files(followed: Followed, options: FollowOptions) -> pa.Table:
    table, follower = followed.table, followed.follower
    with open_feed(followed.database, table.table_id) as feed:
        first, last = change_range(table, feed.row, options)
        follower.check_metadata(table.snapshot(first).metadata, first)
        commits = (feed.read(ref) for ref in feed.commits(first, last))
        parts = [changed_files(commit, follower.files(commit)) for commit in commits]
        files = pa.concat_tables([CHANGED_FILES.empty_table(), *parts])
        feed.require_files(files["path"].to_pylist(), first, last)
    return files


def _moment(value: int | str | datetime, zone: tzinfo) -> VersionOrTimestamp:
    if isinstance(value, int):
        return VersionOrTimestamp(version=value)
    return VersionOrTimestamp(timestamp=to_ms(value, zone))


def _last(table: Table, row: TableRow, end: VersionOrTimestamp) -> int:
    if end.timestamp is None:
        return min(end.version or 0, row.current_version)
    if end.timestamp > row.last_ict:
        raise VersionNotFoundError(
            f"Table {row.full_name} has no version so late to end with; it has "
            f"{row.oldest_version} to {row.current_version}.",
            table=row.full_name,
        )
    return table.snapshot(timestamp=end.timestamp).version
