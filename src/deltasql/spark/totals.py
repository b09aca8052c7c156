"""aggregate: count(*), min and max of a table, from SQL where that is exact, else by Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from deltasql.catalog.snapshots import Snapshot
from deltasql.data.exact_totals import (
    COLUMNS,
    Aggregate,
    chooses_whole_files,
    exact_total,
    parse_aggregate,
)
from deltasql.errors import BadArgumentError
from deltasql.protocol.columns import mapping_mode
from deltasql.protocol.features import require_readable
from deltasql.protocol.partitioning import physical_partition_columns
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.schema import StructType
from deltasql.spark.address import open_table
from deltasql.spark.filter_meaning import compares_otherwise, is_sound
from deltasql.spark.read import read, read_options, settled


def aggregate(
    spark: SparkSession,
    uri: str | None,
    table: str | None,
    *expressions: str,
    **options: Any,
) -> Row:
    """Return one row of aggregates, such as `"count(*)"`, `"min(id)"`, `"max(day)"`.

    Where all of them are exact in what the catalog knows of the files, no file is read; else Spark
    computes them. Options are those of `read`; a filter by other columns than the table is
    partitioned by needs Spark.

    Raises:
        BadArgumentError: nothing is asked for, or an option does not fit.
        SchemaError: there is no such column.
    """
    if not expressions:
        raise BadArgumentError("No aggregate is asked for.", hint='Such as "count(*)".')
    chosen = read_options(options)
    with open_table(uri, table, **chosen.opening) as (_, found):
        snapshot, where = settled(spark, found, chosen)
        known = _known(snapshot, expressions, where.predicate) if where.is_whole else None
    if known is not None:
        return Row(*expressions)(*known)
    pinned = {**options, "version": snapshot.version, "timestamp": None, "columns": None}
    return _computed(read(spark, uri, table, **pinned), expressions)


def _known(
    snapshot: Snapshot, expressions: tuple[str, ...], where: Predicate | None
) -> list[Any] | None:
    """Return the aggregates as far as SQL knows them: all of them, or None."""
    require_readable(snapshot.protocol, snapshot.table.full_name)
    mode = mapping_mode(snapshot.metadata.configuration)
    wanted = [parse_aggregate(one, snapshot.schema, mode) for one in expressions]
    asked = [one for one in wanted if one is not None]
    if any(_is_odd(one, snapshot.schema) for one in asked):
        return None
    by = snapshot.metadata.partition_columns
    if where is not None and not is_sound(where, snapshot.schema, by):
        return None
    files = snapshot.files(COLUMNS, where=where)
    partitions = physical_partition_columns(snapshot.metadata)
    is_whole = chooses_whole_files(files, where, partitions)
    if len(asked) < len(wanted) or not is_whole:
        return None
    totals = [exact_total(files, one, partitions) for one in asked]
    found = [total.value for total in totals if total is not None]
    return found if len(found) == len(totals) else None


def _is_odd(asked: Aggregate, schema: StructType) -> bool:
    return asked.column is not None and compares_otherwise(schema, asked.column.path)


def _computed(frame: DataFrame, expressions: tuple[str, ...]) -> Row:
    found = frame.agg(*(fn.expr(one).alias(one) for one in expressions)).first()
    assert found is not None  # noqa: S101 (an aggregate of all rows has one row)
    return found
