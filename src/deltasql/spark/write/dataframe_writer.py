"""write: the rows of a DataFrame into a table, as one commit, without any jar of Delta.

DataFrames so small that the driver writes them faster than a job would. What Spark knows without
running anything decides: a plan that cannot give more rows than a few, or rows that Python has
handed over as they are, where looking at the first of them is cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasql.api.catalog import Catalog
from deltasql.api.write.table_write import TableWrite
from deltasql.crash import crash_point
from deltasql.data.constraints import refuse_unknown_values, row_checks
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import (
    BadArgumentError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Add
from deltasql.protocol.schema.types import StructType
from deltasql.spark.read.read_marks import versions_read
from deltasql.spark.session.address import open_catalog, table_name
from deltasql.spark.session.spark_session import named_jobs, session_zone, translate_spark_errors
from deltasql.spark.session.spark_types import taken_schema
from deltasql.spark.write.parquet_output import ParquetOutput
from deltasql.spark.write.row_expressions import (
    generated_checks,
    has_made_columns,
    shaped,
    spark_checks,
)
from deltasql.spark.write.write_options import (
    SESSION_OVERWRITE_MODE,
    WriteArguments,
    WriteOptions,
    parse_options,
)
from deltasql.spark.write.write_target import (
    AlreadyThere,
    commit_options,
    find_target,
    fit,
    plan_write,
)

_logger = logging.getLogger(__name__)

SMALL_ROWS = 5_000

# What Spark calls rows of unknown number that Python gave it, and steps that add none to them.
_HANDED_OVER = "LogicalRDD"
_STEPS = frozenset({"Project", "SubqueryAlias"})


def collect_small(frame: DataFrame) -> pa.Table | None:
    """Return all rows of a DataFrame if they are few and easily had, else None."""
    try:
        if not _may_be_small(frame):
            return None
        rows = frame.limit(SMALL_ROWS + 1).toArrow()
    except Exception:
        # Too big, or a null struct whose members are never null, which PySpark cannot show. What
        # the writer that comes next says about the rows counts.
        _logger.debug("The rows do not come to the driver; Spark writes them.", exc_info=True)
        return None
    return rows if rows.num_rows <= SMALL_ROWS else None


def _may_be_small(frame: DataFrame) -> bool:
    inner: Any = getattr(frame, "_jdf", None)
    if inner is None:  # Spark Connect shows no plans
        return False
    plan = inner.queryExecution().optimizedPlan()
    most = plan.maxRows()
    if most.isDefined():
        return int(most.get()) <= SMALL_ROWS
    while plan.nodeName() in _STEPS:
        plan = plan.children().apply(0)
    return str(plan.nodeName()) == _HANDED_OVER


def write(
    df: DataFrame,
    uri: str | None = None,
    table: str | None = None,
    *,
    mode: str = "append",
    options: Mapping[str, Any] | None = None,
    **named: Unpack[WriteArguments],
) -> int:
    """Write a DataFrame to a table and return the version that holds its rows.

    Spark's own Parquet writer makes the files; they count once the one commit names them, so that
    a write that fails leaves the table as it was. `mode` is append, overwrite, errorifexists or
    ignore. `options` takes Delta's names (mergeSchema, overwriteSchema, replaceWhere,
    partitionOverwriteMode, txnAppId, txnVersion, userMetadata, maxRecordsPerFile, compression,
    dataChange); the same can be given by keyword in Python's spelling. `commit_id` makes a
    repetition harmless. A table that is not there is made by the same commit, if `location` says
    where: its rows are version 0.

    Raises:
        SchemaError, ConstraintViolationError: the rows do not fit; nothing was committed.
        CommitConflictError: another commit was first and changed what this one replaces, also
            since `read` returned a DataFrame that the rows come from.
        SparkJobError: Spark failed; nothing was committed.
    """
    chosen = parse_options(mode, options, named)
    if not isinstance(df, DataFrame):
        raise BadArgumentError(f"A {type(df).__name__} is no Spark DataFrame.")
    with translate_spark_errors():
        if df.isStreaming:
            raise BadArgumentError(
                "A streaming DataFrame is not written at once.",
                hint='Use writeStream.format("deltasql"), or foreachBatch with txn_app_id and '
                "txn_version.",
            )
        given = taken_schema(df.schema)
        overwrite_mode = df.sparkSession.conf.get(SESSION_OVERWRITE_MODE, None)
    chosen = replace(chosen.in_session(overwrite_mode), zone=session_zone(df.sparkSession))
    name = table_name(uri, table)
    opening: dict[str, Any] = {
        "storage_options": chosen.storage_options,
        "may_create": chosen.location is not None,
    }
    with open_catalog(uri, **opening) as catalog:
        target = find_target(catalog, name, given, chosen, partial(versions_read, df))
        if isinstance(target, AlreadyThere):
            return target.version
        work = FrameWrite(df, given, chosen)
        try:
            with named_jobs(df.sparkSession, f"deltasql: write to {name}"):
                version = catalog.writes.commit(target, work.stage, commit_options(chosen))
        except TableExistsError:
            made = _made_by_a_copy(catalog, name, chosen)
            if made is None:
                raise
            return made
        crash_point("after-spark-commit")
        return version


def _made_by_a_copy(catalog: Catalog, name: str, options: WriteOptions) -> int | None:
    """Return the version of the same write by another thread or process, which made the table."""
    if options.txn is None and options.commit_id is None:
        return None
    try:
        made = catalog.table(name)
    except TableNotFoundError:  # another table, or another catalog, has the location
        return None
    return catalog.writes.before(made.table_id, commit_options(options))


@dataclass(frozen=True, slots=True)
class FrameWrite:
    """The rows of one DataFrame on their way into one table."""

    frame: DataFrame
    given: StructType
    options: WriteOptions

    def stage(self, staged: TableWrite) -> None:
        """Write the files and stage what the commit does with them."""
        fitted = fit(staged, self.given, self.options)
        refuse_unknown_values(fitted.schema)
        with staged.writing_data():
            adds = self._write(staged, fitted)
        staged.stage(plan_write(staged.snapshot, adds, self.options), fitted)
        crash_point("before-spark-commit")

    def _write(self, staged: TableWrite, fitted: Snapshot) -> list[Add]:
        spec = staged.write_spec(fitted, data_change=self.options.data_change)
        spec = replace(spec, compression=self.options.compression, zone=self.options.zone)
        with translate_spark_errors():
            rows_to_write = shaped(self.frame, self.given, spec.schema)
        if self._is_for_the_driver(spec):
            rows = collect_small(self.frame)
            if rows is not None:
                return write_files(rows.to_reader(), spec, staged.store)
        checks = [
            *spark_checks(spec.schema, spec.configuration, spec.partition_columns),
            *generated_checks(spec.schema, self.given),
        ]
        output = ParquetOutput(spec, checks, self.options.max_records_per_file)
        return output.write(rows_to_write, staged.store)

    def _is_for_the_driver(self, spec: WriteSpec) -> bool:
        """Tell whether our own writer can do it, if the rows are few."""
        is_plain = not has_made_columns(spec.schema, self.given)
        return is_plain and self.options.max_records_per_file is None and _is_ours(spec)


def _is_ours(spec: WriteSpec) -> bool:
    """Tell whether our own writer can check every constraint of the table."""
    try:
        row_checks(spec.schema, spec.configuration, spec.zone)
    except UnsupportedFeatureError:
        return False
    return True
