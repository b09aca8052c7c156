"""One version of a table by `format("deltasql")`: planned in SQL, read by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from deltasql.errors import BadPredicateError
from deltasql.protocol.predicate import And
from deltasql.spark.read.read_plan import has_odd_texts, plan_read, pushable_part, understood
from deltasql.spark.session.spark_session import told_with_code
from deltasql.spark.session.spark_types import arrow_schema, spark_schema
from deltasql.spark.source.scan_tasks import RowsToRead, ScanTask, scan_tasks, task_spec
from deltasql.spark.source.source_options import SourceOptions, open_source
from deltasql.spark.streaming.commit_rules import require_same


@dataclass
class TableReader(DataSourceReader):
    """Reads what the options name, at one version.

    It has no `pushFilters`: Spark 4.1 and 4.2 keep the partitions of the first query that pushes a
    filter for all queries of one `load()`, which would then miss rows.
    """

    chosen: SourceOptions
    rows: RowsToRead

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks, planned in SQL."""
        with told_with_code(), open_source(self.chosen) as (_, table):
            snapshot = table.snapshot(self.chosen.version)
            wanted = understood(snapshot, self.chosen.skip, self.chosen.zone).predicate
            skip = pushable_part(wanted, snapshot.schema, snapshot.metadata.partition_columns)
            conditions = tuple(part for part in (self.rows.where, skip) if part is not None)
            plan = plan_read(snapshot, table.store, And(conditions) if conditions else None)
            return scan_tasks(self.rows, plan.files)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's files, deleted ones left out."""
        if not isinstance(partition, ScanTask):  # where there is no task, Spark makes one
            return
        with told_with_code():
            yield from partition.batches()


def table_reader(chosen: SourceOptions, schema: StructType) -> TableReader:
    """Settle the version that is read, by columns that Spark was told of before.

    Raises:
        SchemaError: the table has other columns by now.
        BadPredicateError: the filter means another thing to Spark.
    """
    with open_source(chosen) as (catalog, table):
        snapshot = table.snapshot(chosen.version, chosen.timestamp)
        require_same(spark_schema(snapshot.schema), schema, table.name)
        opener = catalog.store_opener(table.location)
    # as nullable as Spark was told: an Arrow schema that differs is refused
    where = snapshot.predicate(chosen.where, chosen.zone)
    if where is not None and has_odd_texts(where, snapshot.schema):
        raise BadPredicateError(
            "The option where compares texts of a char or of a collation, which Spark has its own "
            "way with.",
            hint="Filter the DataFrame.",
        )
    spec = task_spec(snapshot, chosen.zone)
    rows = RowsToRead(opener, spec, arrow_schema(schema), where=where)
    return TableReader(replace(chosen, version=snapshot.version, timestamp=None), rows)
