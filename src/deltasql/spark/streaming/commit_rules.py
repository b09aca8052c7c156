"""A table that is followed, opened: its columns as Spark was told of them, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import types

from deltasql.catalog.database import Database
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.table import Table
from deltasql.errors import BadArgumentError, SchemaError
from deltasql.protocol.columns import find_field, mapping_mode
from deltasql.protocol.features import require_readable
from deltasql.protocol.read_compatible import ReadSchema
from deltasql.spark.follow_options import FollowOptions
from deltasql.spark.follow_rules import Follower
from deltasql.spark.scan_tasks import CHANGE, MARKS, TIME, VERSION, RowsToRead, task_spec
from deltasql.spark.schema import arrow_schema, spark_schema
from deltasql.spark.source_options import SourceOptions, open_source


@dataclass(frozen=True, slots=True)
class Followed:
    """An open table with what reads it."""

    database: Database
    table: Table
    follower: Follower
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
            Follower(
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
