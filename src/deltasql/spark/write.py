"""write: the rows of a DataFrame into a table, as one commit, without any jar of Delta."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from pyspark.sql import DataFrame

from deltasql.catalog.snapshots import Snapshot
from deltasql.client.catalog import Catalog
from deltasql.client.partition_overwrite import plan_partition_overwrite
from deltasql.client.plans import Planned, partition_filter, plan_append, plan_overwrite
from deltasql.client.staging import StagedTable
from deltasql.client.table import Table
from deltasql.crash import crash_point
from deltasql.data.constraints import refuse_unwritable, row_checks
from deltasql.data.writer import WriteSpec, write_files
from deltasql.errors import (
    BadArgumentError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltasql.protocol.actions import Add
from deltasql.protocol.schema import StructType
from deltasql.spark.address import open_catalog, table_name
from deltasql.spark.causes import told_by_spark
from deltasql.spark.frame_schema import frame_schema
from deltasql.spark.output_columns import output_columns
from deltasql.spark.parquet_output import ParquetOutput
from deltasql.spark.row_checks import spark_checks
from deltasql.spark.small_frames import collect_small
from deltasql.spark.write_options import WriteArguments, WriteOptions, parse_options
from deltasql.storage.resolve import location_key

# The modes of an append as Delta spells them in its history.
_NOTED = {"append": "Append", "errorifexists": "ErrorIfExists", "ignore": "Ignore"}


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
    repetition harmless. A table that is not there is created first, if `location` says where.

    Raises:
        SchemaError, ConstraintViolationError: the rows do not fit; nothing was committed.
        CommitConflictError: another commit was first and changed what this one replaces.
        SparkJobError: Spark failed; nothing was committed.
    """
    chosen = parse_options(mode, options, named)
    if not isinstance(df, DataFrame):
        raise BadArgumentError(f"A {type(df).__name__} is no Spark DataFrame.")
    with told_by_spark():
        if df.isStreaming:
            raise BadArgumentError(
                "A streaming DataFrame is not written at once.",
                hint="Write each batch with foreachBatch, with txn_app_id and txn_version.",
            )
        given = frame_schema(df)
    name = table_name(uri, table)
    opening: dict[str, Any] = {
        "storage_options": chosen.storage_options,
        "may_create": chosen.location is not None,
    }
    with open_catalog(uri, **opening) as catalog:
        found, is_new = _target(catalog, name, given, chosen)
        if chosen.mode == "ignore" and not is_new:
            return found.version
        work = FrameWrite(df, given, chosen)
        version = found.write_with(work.stage, **chosen.commit)
        crash_point("after-spark-commit")
        return version


@dataclass(frozen=True, slots=True)
class FrameWrite:
    """The rows of one DataFrame on their way into one table."""

    frame: DataFrame
    given: StructType
    options: WriteOptions

    def stage(self, staged: StagedTable) -> None:
        """Write the files and stage what the commit does with them."""
        fitted = staged.fit(self.given, self.options.schema_mode)
        refuse_unwritable(fitted.schema, self.given.names)
        if self.options.replace_where is not None:
            partition_filter(staged.snapshot, self.options.replace_where)
        staged.begin_writing()
        adds = self._write(staged, fitted)
        staged.stage(self._plan(staged.snapshot, adds), fitted)
        crash_point("before-spark-commit")

    def _plan(self, snapshot: Snapshot, adds: list[Add]) -> Planned:
        how = self.options
        if how.mode != "overwrite":
            return plan_append(snapshot, adds, _NOTED[how.mode])
        if how.is_dynamic:
            return plan_partition_overwrite(snapshot, adds, data_change=how.data_change)
        return plan_overwrite(snapshot, adds, how.replace_where, data_change=how.data_change)

    def _write(self, staged: StagedTable, fitted: Snapshot) -> list[Add]:
        spec = staged.write_spec(fitted, data_change=self.options.data_change)
        spec = replace(spec, compression=self.options.compression)
        columns = output_columns(self.given, fitted.schema)
        if self.options.max_records_per_file is None and _is_ours(spec):
            rows = collect_small(self.frame)
            if rows is not None:
                return write_files(rows.to_reader(), spec, staged.store)
        checks = spark_checks(spec.schema, spec.configuration, spec.partition_columns)
        output = ParquetOutput(spec, checks, self.options.max_records_per_file)
        with told_by_spark():
            rows_to_write = self.frame.select(*columns)
        return output.write(rows_to_write, staged.store)


def _is_ours(spec: WriteSpec) -> bool:
    """Tell whether our own writer can check every constraint of the table."""
    try:
        row_checks(spec.schema, spec.configuration)
    except UnsupportedFeatureError:
        return False
    return True


def _target(
    catalog: Catalog, name: str, given: StructType, options: WriteOptions
) -> tuple[Table, bool]:
    """Return the table to write to, and whether it was made for this."""
    try:
        found = catalog.table(name)
    except TableNotFoundError as error:
        if options.location is None:
            raise TableNotFoundError(
                error.message, hint="Give a location, and the table is created there.", table=name
            ) from error
        made = catalog.create_table(
            name,
            location=options.location,
            schema=given,
            partition_by=options.partition_by or (),
        )
        return made, True
    if options.mode == "errorifexists":
        raise TableExistsError(
            f"There is a table {name!r} already.",
            hint="Write with mode append or overwrite.",
            table=name,
        )
    _require_same(found, options)
    return found, False


def _require_same(table: Table, options: WriteOptions) -> None:
    place = options.location
    if place is not None and location_key(place) != location_key(table.location):
        raise BadArgumentError(f"The table lies at {table.location}, not at {place}.")
    wanted = options.partition_by
    if wanted is None:
        return
    columns = tuple(table.snapshot().metadata.partition_columns)
    if wanted != columns:
        raise SchemaError(
            f"The table is partitioned by {', '.join(columns) or 'nothing'}, not by "
            f"{', '.join(wanted) or 'nothing'}."
        )
