"""`format("deltasql")`: a Python Data Source, for every table that deltasql can read.

Spark runs it in processes of its own, one for the schema, one for the plan, and the tasks: they
share nothing but the options. No jar is needed, deletion vectors are applied, any store is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from deltasql.data.scan import ScanSpec, scan_files
from deltasql.errors import SchemaError
from deltasql.protocol.arrow_schema import to_arrow_schema
from deltasql.protocol.predicate import And, Predicate
from deltasql.protocol.schema import parse_schema
from deltasql.spark.address import open_table
from deltasql.spark.pushed_filters import pushed_predicate
from deltasql.spark.read_plan import plan_read
from deltasql.spark.schema import spark_schema
from deltasql.spark.source_errors import told_with_code
from deltasql.spark.source_options import SOURCE, SourceOptions, parse_options
from deltasql.storage.resolve import StoreOpener

# What one task reads: so many bytes, or so many files.
_TASK_BYTES = 128 * 1024 * 1024
_TASK_FILES = 1_000
# The program of Spark's that asks a reader for pushFilters. Where a session does not push filters
# another one runs, which refuses a reader that has the method.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class DeltaSqlSource(DataSource):
    """One version of a table, by its name and the URI of its catalog."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(…)`."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the table's columns, or those that were asked for."""
        with told_with_code():
            chosen = parse_options(self.options)
            with _opened(chosen) as (_, table):
                whole = spark_schema(table.snapshot(chosen.version, chosen.timestamp).schema)
            return _only(whole, chosen.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan the read in SQL."""
        with told_with_code():
            return _reader(parse_options(self.options), schema)


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """The files of one task, as Arrow."""

    files: bytes


@dataclass
class TableReader(DataSourceReader):
    """Reads one version, with what the plan and the tasks need."""

    chosen: SourceOptions
    spec: ScanSpec
    opener: StoreOpener
    columns: tuple[str, ...]
    target: pa.Schema
    where: Predicate | None
    pushed: Predicate | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, planned in SQL."""
        with told_with_code(), _opened(self.chosen) as (_, table):
            snapshot = table.snapshot(self.chosen.version)
            given = (self.where, snapshot.predicate(self.chosen.skip), self.pushed)
            conditions = tuple(one for one in given if one is not None)
            files = plan_read(snapshot, table.store, And(conditions) if conditions else None).files
            return [FilesPartition(_packed(part)) for part in _shared_out(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's files, deleted ones left out."""
        if not isinstance(partition, FilesPartition):  # where there is no task, Spark makes one
            return
        files = pa.ipc.open_stream(partition.files).read_all()
        wanted: dict[str, Any] = {"columns": self.columns, "predicate": self.where}
        with told_with_code():
            for batch in scan_files(files, self.spec, self.opener(), **wanted):
                yield batch.cast(self.target)


class FilteringReader(TableReader):
    """Lets SQL skip files by what Spark filters by; Spark applies its filters all the same."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take note of filters before the tasks are asked for."""
        self.pushed = pushed_predicate(filters, self.spec.schema, self.spec.mode)
        return filters


def register(spark: Any) -> None:
    """Make `format("deltasql")` known to a session; where deltasql is installed it is already."""
    spark.dataSource.register(DeltaSqlSource)


def _opened(chosen: SourceOptions) -> Any:
    return open_table(chosen.uri, chosen.table, storage_options=chosen.storage_options or None)


def _reader(chosen: SourceOptions, schema: StructType) -> TableReader:
    with _opened(chosen) as (catalog, table):
        snapshot = table.snapshot(chosen.version, chosen.timestamp)
        _require_same(spark_schema(snapshot.schema), schema, table.name)
        opener = catalog.store_opener(table.location)
    metadata = snapshot.metadata
    kind = FilteringReader if _PUSHING in sys.modules else TableReader
    return kind(
        replace(chosen, version=snapshot.version, timestamp=None),
        ScanSpec(snapshot.schema, metadata.partition_columns, metadata.configuration, threads=1),
        opener,
        tuple(schema.names),
        # as nullable as Spark was told: an Arrow schema that differs is refused
        to_arrow_schema(parse_schema(schema.json())),
        snapshot.predicate(chosen.where),
    )


def _only(whole: StructType, columns: Sequence[str] | None) -> StructType:
    if columns is None:
        return whole
    missing = [name for name in columns if name not in whole.names]
    if missing:
        raise SchemaError(f"The table has no column {', '.join(missing)}.", columns=missing)
    return StructType([whole[name] for name in columns])


def _require_same(whole: StructType, wanted: StructType, table: str) -> None:
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


def _shared_out(files: pa.Table) -> Iterator[pa.Table]:
    start, size = 0, 0
    for at, each in enumerate(files["size"].to_pylist()):
        if at > start and (size + each > _TASK_BYTES or at - start >= _TASK_FILES):
            yield files.slice(start, at - start)
            start, size = at, 0
        size += each
    if start < files.num_rows:
        yield files.slice(start)


def _packed(files: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return bytes(sink.getvalue())
