"""`format("deltasql")`: a Python Data Source, for every table that deltasql can read.

Spark runs it in processes of its own, one for the schema, one for the plan, and the tasks: they
share nothing but the options. No jar is needed, deletion vectors are applied, any store is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltasql.data.scan import ScanSpec, scan_files
from deltasql.errors import SchemaError
from deltasql.spark.address import open_table
from deltasql.spark.batch_sink import batch_sink
from deltasql.spark.frame_schema import taken_schema
from deltasql.spark.read_plan import plan_read
from deltasql.spark.schema import spark_schema
from deltasql.spark.sink_options import batch_options, stream_options
from deltasql.spark.source_errors import told_with_code
from deltasql.spark.source_options import SOURCE, SourceOptions, parse_options
from deltasql.spark.streaming_sink import streaming_sink
from deltasql.storage.resolve import StoreOpener

# What one task reads: so many bytes, or so many files.
_TASK_BYTES = 128 * 1024 * 1024
_TASK_FILES = 1_000


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
            return _plan(parse_options(self.options), schema)

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
        _require_same(whole, schema, table.name)
        plan = plan_read(snapshot, table.store, chosen.where)
        opener = catalog.store_opener(table.location)
    metadata = snapshot.metadata
    spec = ScanSpec(snapshot.schema, metadata.partition_columns, metadata.configuration, threads=1)
    # as nullable as Spark was told: an Arrow schema that differs is refused
    target = to_arrow_schema(schema, timezone="UTC")
    parts = tuple(_packed(part) for part in _shared_out(plan.files))
    return TableReader(opener, spec, tuple(schema.names), target, parts)


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
