"""`format("deltasql")`: a Python Data Source, for every table that deltasql can read.

Spark runs it in processes of its own, one for the schema, one for the plan, and the tasks: they
share nothing but the options. No jar is needed, deletion vectors are applied, any store is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from deltasql.errors import SchemaError
from deltasql.spark.session.spark_session import told_with_code
from deltasql.spark.session.spark_types import spark_schema, taken_schema
from deltasql.spark.source.batch_reader import table_reader
from deltasql.spark.source.sink import batch_sink, streaming_sink
from deltasql.spark.source.source_options import (
    SOURCE,
    batch_options,
    open_source,
    parse_options,
    stream_options,
)
from deltasql.spark.streaming.change_feed import plan_changes
from deltasql.spark.streaming.commit_rules import followed_schema, schema_snapshot
from deltasql.spark.streaming.stream_options import parse_follow_options, split_options
from deltasql.spark.streaming.stream_reader import TableStream


class DeltaSqlSource(DataSource):
    """A table, by its name and the URI of its catalog."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(…)`."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the table's columns, or those that were asked for."""
        with told_with_code():
            given, follow = split_options(self.options)
            chosen = parse_options(given)
            options = parse_follow_options(follow, chosen.zone)
            with open_source(chosen) as (_, table):
                if options.is_feed:
                    whole = followed_schema(schema_snapshot(table, options), options)
                else:
                    whole = spark_schema(table.snapshot(chosen.version, chosen.timestamp).schema)
            return _only(whole, chosen.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan the read in SQL."""
        with told_with_code():
            given, follow = split_options(self.options)
            chosen = parse_options(given)
            if not follow:
                return table_reader(chosen, schema)
            options = parse_follow_options(follow, chosen.zone).for_batch(follow)
            return plan_changes(chosen, options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Follow the table."""
        with told_with_code():
            given, follow = split_options(self.options)
            chosen = parse_options(given)
            options = parse_follow_options(follow, chosen.zone).for_stream()
            return TableStream(chosen, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Plan a write."""
        with told_with_code():
            chosen = batch_options(self.options, overwrite=overwrite)
            return batch_sink(chosen, taken_schema(schema), str(uuid.uuid4()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """Plan one batch of a stream; in complete mode each batch replaces all rows."""
        with told_with_code():
            chosen = stream_options(self.options, overwrite=overwrite)
            return streaming_sink(chosen, taken_schema(schema))


def register(spark: Any) -> None:
    """Make `format("deltasql")` known to a session; where deltasql is installed it is already."""
    spark.dataSource.register(DeltaSqlSource)


def _only(whole: StructType, columns: Sequence[str] | None) -> StructType:
    if columns is None:
        return whole
    missing = [name for name in columns if name not in whole.names]
    if missing:
        raise SchemaError(f"The table has no column {', '.join(missing)}.", columns=missing)
    return StructType([whole[name] for name in columns])
