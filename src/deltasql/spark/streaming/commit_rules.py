"""What a commit gives to a stream or a change feed, and what stops it: Delta's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import types

from deltasql.api.table import Table
from deltasql.database.port import Database
from deltasql.errors import (
    BadArgumentError,
    ChangeDataMissingError,
    CorruptDataError,
    SchemaError,
    StreamError,
    VersionNotFoundError,
)
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow
from deltasql.protocol.actions import Metadata
from deltasql.protocol.changes import ChangedFile, FollowedCommit
from deltasql.protocol.features import require_readable
from deltasql.protocol.properties import read_bool
from deltasql.protocol.schema.columns import ReadSchema, find_field, mapping_mode
from deltasql.spark.session.spark_types import arrow_schema, spark_schema
from deltasql.spark.source.scan_tasks import CHANGE, MARKS, TIME, VERSION, RowsToRead, task_spec
from deltasql.spark.source.source_options import SourceOptions, open_source
from deltasql.spark.streaming.stream_options import FollowOptions, VersionOrTimestamp

_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Who follows which table: by columns settled at `version`, and under which options."""

    table: str
    read: ReadSchema
    version: int
    options: FollowOptions
    partition_values_at: Callable[[int], dict[str, dict[str, str | None]]]

    def files(self, commit: FollowedCommit) -> list[ChangedFile]:
        """Return the files to read of a commit.

        Raises:
            StreamError: rows were changed or deleted, and no option says what to do then.
            SchemaError: the rows cannot be read by the columns that were settled on.
            ChangeDataMissingError: the change feed was switched off.
            UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
        """
        if commit.protocol is not None:
            require_readable(commit.protocol, self.table)
        if commit.metadata is not None:
            self.check_metadata(commit.metadata, commit.version)
        if self.options.is_feed:
            return self._with_values(commit, commit.changed())
        return commit.appended() if self._takes(commit) else []

    def check_metadata(self, metadata: Metadata, version: int) -> None:
        """Refuse what cannot be read any more, or not as a feed."""
        if self.options.is_feed and not read_bool(metadata.configuration, _FEED):
            raise ChangeDataMissingError(
                f"The changes of version {version} of {self.table} were not recorded: {_FEED} was "
                "not set.",
                table=self.table,
                version=version,
            )
        why = self.read.misfit(ReadSchema.of(metadata))
        if why is None:
            return
        if version > self.version:
            raise SchemaError(
                f"The schema of {self.table} changed at version {version}: {why}.",
                hint="Restart the query: it goes on where it was, with the new schema.",
                table=self.table,
                version=version,
            )
        raise SchemaError(
            f"Version {version} of {self.table} cannot be read with the schema of version "
            f"{self.version}: {why}.",
            hint="Begin at a later version, with a new checkpoint.",
            table=self.table,
            version=version,
        )

    def _takes(self, commit: FollowedCommit) -> bool:
        """Tell whether the added files of a commit are read; refuse what no option allows."""
        if not commit.removes:
            return True
        options = self.options
        if options.skip_change_commits:
            return False
        if options.ignore_changes or (options.ignore_deletes and not commit.adds):
            return True
        path = commit.removes[0].path
        if commit.adds:
            raise StreamError(
                f"Version {commit.version} of {self.table} changed rows (for example of the file "
                f"{path}), which a stream cannot tell.",
                hint="Set skipChangeCommits to true to pass over such commits, or start a new "
                "query with a new checkpoint to have the changes.",
                table=self.table,
                version=commit.version,
            )
        raise StreamError(
            f"Version {commit.version} of {self.table} deleted rows (for example of the file "
            f"{path}), which a stream cannot tell.",
            hint="Set ignoreDeletes to true to pass over such commits, or start a new query with "
            "a new checkpoint.",
            table=self.table,
            version=commit.version,
        )

    def _with_values(self, commit: FollowedCommit, files: list[ChangedFile]) -> list[ChangedFile]:
        """Return the files with the partition values that old writers leave out of removes."""
        if not self.read.partition_columns or all(
            one.partition_values is not None for one in files
        ):
            return files
        known = self.partition_values_at(commit.version)
        return [self._told(one, known) for one in files]

    def _told(self, one: ChangedFile, known: dict[str, dict[str, str | None]]) -> ChangedFile:
        values = one.partition_values if one.partition_values is not None else known.get(one.path)
        if values is None:
            raise CorruptDataError(
                f"Nothing tells the partition of the removed file {one.path}.", path=one.path
            )
        return ChangedFile(one.path, one.size, values, one.deletion_vector, one.among, one.change)


def starting_version(table: Table, row: TableRow, start: VersionOrTimestamp) -> int:
    """Return the version where to begin: at a time, the first one that is not before it.

    Raises:
        VersionNotFoundError: the table has no such version, or none so late.
    """
    version = (
        start.version if start.timestamp is None else _first_since(table, row, start.timestamp)
    )
    assert version is not None  # noqa: S101 (a moment is one or the other)
    if not row.oldest_version <= version <= row.current_version:
        told = f"version {version}" if start.timestamp is None else "version so late"
        raise VersionNotFoundError(
            f"Table {row.full_name} has no {told} to begin with; it has {row.oldest_version} to "
            f"{row.current_version}.",
            table=row.full_name,
            version=version,
        )
    return version


def _first_since(table: Table, row: TableRow, timestamp: int) -> int:
    try:
        found = table.snapshot(timestamp=timestamp)
    except VersionNotFoundError:  # the table is younger
        return row.oldest_version
    return found.version if found.timestamp == timestamp else found.version + 1


@dataclass(frozen=True, slots=True)
class Followed:
    """An open table with what reads it."""

    database: Database
    table: Table
    follower: CommitFilter
    rows: RowsToRead


@contextmanager
def open_followed(
    source: SourceOptions, options: FollowOptions, schema: types.StructType
) -> Iterator[Followed]:
    """Open a table to be read by columns that Spark was told of before.

    Raises:
        SchemaError: the table has other columns by now.
        UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
    """
    refuse_time_travel(source)
    with open_source(source) as (catalog, table):
        snapshot = schema_snapshot(table, options)
        require_readable(snapshot.protocol, snapshot.table.full_name)
        _require_columns(source, followed_schema(snapshot, options), schema)
        metadata = snapshot.metadata
        spec = task_spec(snapshot, source.zone)
        # as nullable as Spark was told: an Arrow schema that differs is refused
        target = arrow_schema(schema)
        opener = catalog.store_opener(table.location)
        yield Followed(
            snapshot.database,
            table,
            CommitFilter(
                snapshot.table.full_name,
                ReadSchema.of(metadata),
                snapshot.version,
                options,
                lambda version: _removed_values(table, version),
            ),
            RowsToRead(opener, spec, target, options.is_feed),
        )


def schema_snapshot(table: Table, options: FollowOptions) -> Snapshot:
    """Return the version whose columns are read: the newest, as with Delta.

    A feed of a table with mapped columns that has an end is read by the columns of its end.
    """
    newest = table.snapshot()
    if options.end is None or mapping_mode(newest.metadata.configuration) == "none":
        return newest
    if options.end.version is not None:
        return table.snapshot(min(options.end.version, newest.version))
    return table.snapshot(timestamp=options.end.timestamp)


def followed_schema(snapshot: Snapshot, options: FollowOptions) -> types.StructType:
    """Return the columns as Delta Spark shows them; those of a feed come with three more.

    Raises:
        SchemaError: the table has a column of such a name itself.
    """
    whole = spark_schema(snapshot.schema)
    if not options.is_feed:
        return whole
    taken = [name for name in MARKS if find_field(snapshot.schema, name) is not None]
    if taken:
        raise SchemaError(
            f"The change feed cannot be read: the table has a column {taken[0]} of its own."
        )
    marks = [
        types.StructField(CHANGE, types.StringType()),
        types.StructField(VERSION, types.LongType()),
        types.StructField(TIME, types.TimestampType()),
    ]
    return types.StructType([*whole.fields, *marks])


def refuse_time_travel(source: SourceOptions) -> None:
    """Refuse options that are for a read of one version.

    Raises:
        BadArgumentError: names it.
    """
    if source.version is not None or source.timestamp is not None:
        raise BadArgumentError(
            "versionAsOf and timestampAsOf are for a read of one version.",
            hint="A stream and a change feed begin with startingVersion or startingTimestamp.",
        )
    if source.where is not None or source.skip is not None:
        raise BadArgumentError(
            "The options where and skipWhere are for a read of one version.",
            hint="Filter the DataFrame.",
        )


def require_same(whole: types.StructType, wanted: types.StructType, table: str) -> None:
    """Refuse columns that the table does not have as they were asked for."""
    wrong = [
        one.name
        for one in wanted.fields
        if one.name not in whole.names or whole[one.name].dataType != one.dataType
    ]
    if wrong:
        raise SchemaError(
            f"Table {table} has no column {', '.join(wrong)} of the type that was asked for.",
            hint="If the table was changed meanwhile, load it again.",
            columns=wrong,
        )


def _require_columns(
    source: SourceOptions, whole: types.StructType, told: types.StructType
) -> None:
    """Refuse columns that are not the table's, and to lose one that has come meanwhile."""
    require_same(whole, told, source.table)
    missing = [name for name in whole.names if name not in told.names]
    if source.columns is None and missing:
        raise SchemaError(
            f"Table {source.table} has the column {', '.join(missing)}, which is not asked for.",
            hint="If the table was changed meanwhile, load it again; some columns only are read "
            "with the option columns.",
            columns=missing,
        )


def _removed_values(table: Table, version: int) -> dict[str, dict[str, str | None]]:
    """Return the partitions of the files that ended at a version, as SQL knows them."""
    ended = [one for one in table.changes(version - 1, version) if one.change != "added"]
    return {one.path: one.partition_values for one in ended}
