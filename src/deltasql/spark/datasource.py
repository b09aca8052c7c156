"""`format("deltasql")`: a Python Data Source, for every table that deltasql can read.

Spark runs it in processes of its own, one for the schema, one for the plan, and the tasks: they
share nothing but the options. No jar is needed, deletion vectors are applied, any store is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltasql.data.scan import ScanSpec, scan_files
from deltasql.errors import SchemaError
from deltasql.spark.address import open_table
from deltasql.spark.change_feed import plan_changes
from deltasql.spark.follow_options import parse_follow_options, split_options
from deltasql.spark.followed_rows import followed_schema, require_same, schema_snapshot
from deltasql.spark.read_plan import plan_read
from deltasql.spark.scan_tasks import packed, shared_out
from deltasql.spark.schema import spark_schema
from deltasql.spark.source_errors import told_with_code
from deltasql.spark.source_options import SOURCE, SourceOptions, parse_options
from deltasql.spark.stream_source import TableStream
from deltasql.storage.resolve import StoreOpener


class DeltaSqlSource(DataSource):
    """One version of a table, by its name and the URI of its catalog."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(…)`."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the table's columns, or those that were asked for."""
        with told_with_code():
            given, follow = split_options(self.options)
            chosen, options = parse_options(given), parse_follow_options(follow)
            with _opened(chosen) as (_, table):
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
                return _plan(chosen, schema)
            options = parse_follow_options(follow).for_batch(follow)
            return plan_changes(chosen, options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark names it)
        """Follow the table."""
        with told_with_code():
            given, follow = split_options(self.options)
            options = parse_follow_options(follow).for_stream()
            return TableStream(parse_options(given), options, schema)


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """The files of one task, as Arrow."""

    files: bytes


@dataclass(frozen=True)
class TableReader(DataSourceReader):
    """Reads files of one version, with what a task needs to find them."""

    opener: StoreOpener
    spec: ScanSpec
    columns: tuple[str, ...]
    target: pa.Schema
    parts: tuple[bytes, ...]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        return [FilesPartition(part) for part in self.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's files, deleted ones left out."""
        if not isinstance(partition, FilesPartition):  # where there is no task, Spark makes one
            return
        files = pa.ipc.open_stream(partition.files).read_all()
        with told_with_code():
            for batch in scan_files(files, self.spec, self.opener(), columns=self.columns):
                yield batch.cast(self.target)


def register(spark: Any) -> None:
    """Make `format("deltasql")` known to a session; where deltasql is installed it is already."""
    spark.dataSource.register(DeltaSqlSource)


def _opened(chosen: SourceOptions) -> Any:
    return open_table(chosen.uri, chosen.table, storage_options=chosen.storage_options or None)


def _plan(chosen: SourceOptions, schema: StructType) -> TableReader:
    with _opened(chosen) as (catalog, table):
        snapshot = table.snapshot(chosen.version, chosen.timestamp)
        whole = spark_schema(snapshot.schema)
        require_same(whole, schema, table.name)
        plan = plan_read(snapshot, table.store, chosen.where)
        opener = catalog.store_opener(table.location)
    metadata = snapshot.metadata
    spec = ScanSpec(snapshot.schema, metadata.partition_columns, metadata.configuration, threads=1)
    # as nullable as Spark was told: an Arrow schema that differs is refused
    target = to_arrow_schema(schema, timezone="UTC")
    parts = tuple(packed(part) for part in shared_out(plan.files))
    return TableReader(opener, spec, tuple(schema.names), target, parts)


def _only(whole: StructType, columns: Sequence[str] | None) -> StructType:
    if columns is None:
        return whole
    missing = [name for name in columns if name not in whole.names]
    if missing:
        raise SchemaError(f"The table has no column {', '.join(missing)}.", columns=missing)
    return StructType([whole[name] for name in columns])
