"""read: one version of a table as a DataFrame, planned in SQL; counted from the log where that is
exact.

How many rows files have, from what the log says of them, only where that is exact. Rows are
counted less those that deletion vectors delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from deltasql.api.detail import to_ms
from deltasql.api.table import Table
from deltasql.errors import BadArgumentError, BadPredicateError
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.predicate import Predicate, columns_of
from deltasql.protocol.predicate.parser import UnderstoodFilter
from deltasql.protocol.predicate.prune import answers, partition_facts
from deltasql.protocol.schema.columns import (
    find_field,
    mapping_mode,
    physical_name,
    physical_partition_columns,
)
from deltasql.settings import Settings
from deltasql.spark.read.delta_scan import delta_can_scan, scan_by_delta
from deltasql.spark.read.native_scan import FileList, scan_natively
from deltasql.spark.read.read_marks import (
    AttachedTable,
    is_classic,
    mark_attached,
    mark_read,
    note_views,
)
from deltasql.spark.read.read_plan import (
    ReadPlan,
    plan_read,
    pushable_part,
    require_values,
    understood,
)
from deltasql.spark.session.address import open_catalog, open_table
from deltasql.spark.session.spark_session import session_zone, zone_name
from deltasql.spark.session.spark_types import physical_schema, spark_schema
from deltasql.spark.source.source_options import SOURCE, source_options, table_options
from deltasql.storage.local import LocalStore

_DICTS = msgspec.json.Decoder(dict[str, str | None])
_DELETED = msgspec.json.Decoder(dict[str, Any])


def exact_rows(files: pa.Table) -> int | None:
    """Return how many rows the files have together; None if one does not tell."""
    if files["num_records"].null_count:
        return None
    told = pc.drop_null(files["deletion_vector"])
    deleted = [_DELETED.decode(text).get("cardinality") for text in told.to_pylist()]
    if not all(type(count) is int and count >= 0 for count in deleted):
        return None
    return int(pc.sum(files["num_records"]).as_py() or 0) - sum(cast("list[int]", deleted))


def chooses_whole_files(files: pa.Table, predicate: Predicate | None, names: Iterable[str]) -> bool:
    """Tell whether a filter surely keeps every row of the files, by their partition values."""
    if predicate is None:
        return True
    partitions = set(names)
    if any(column.physical[0] not in partitions for column in columns_of(predicate)):
        return False
    texts = pc.unique(files["partition_values"]).to_pylist()
    values = (_DICTS.decode(text) if text else {} for text in texts)
    return all(_answers(predicate, each) == {True} for each in values)


def _answers(predicate: Predicate, values: Mapping[str, str | None]) -> frozenset[bool | None]:
    return answers(predicate, lambda c: partition_facts(c, values.get(c.physical[0])))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What of a table is read: one version, some columns, the rows that a filter keeps."""

    version: int | None = None
    timestamp: datetime | int | str | None = None
    where: str | None = None
    columns: Sequence[str] | None = None
    settings: Settings | None = field(default=None, repr=False)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def opening(self) -> dict[str, Any]:
        """How the catalog and the stores are opened."""
        return {"settings": self.settings, "storage_options": self.storage_options}


class CountedFrame(ClassicFrame):
    """The rows of one version of a table, or of some of its partitions, counted by SQL.

    A DataFrame derived from it is an ordinary one.
    """

    rows: int

    def count(self) -> int:
        """Return the number of rows without a job."""
        return self.rows


def _counted(frame: DataFrame, rows: int | None) -> DataFrame:
    """Return the same DataFrame; with a number of rows, one that knows it."""
    if rows is None or not isinstance(frame, ClassicFrame):
        return frame
    found = CountedFrame(frame._jdf, frame.sparkSession)  # noqa: SLF001 (as Spark makes its own)
    found.rows = rows
    return found


def read(
    spark: SparkSession, uri: str | None = None, table: str | None = None, **options: Any
) -> DataFrame:
    """Return a table as a DataFrame; the table is named by the URI or beside it.

    Options are those of ReadOptions: version or timestamp, where (a filter that Spark applies, and
    that SQL skips files by as far as it understands it), columns. The DataFrame stays the version
    that it was planned on. Times that name no zone are those of the session's zone, as everywhere
    in Spark.

    Raises:
        BadArgumentError, BadPredicateError: an option does not fit.
        TableNotFoundError, VersionNotFoundError: there is no such table or version.
        UnsupportedFeatureError: the table needs a reader feature that deltasql lacks.
    """
    chosen = _read_options(options)
    with open_table(uri, table, **chosen.opening) as (_, found):
        return _frame(spark, uri, found, chosen)


def explain(uri: str | None = None, table: str | None = None, **options: Any) -> ReadPlan:
    """Return how `read` would read a table: version, files, and by whom they are scanned.

    The session is this thread's, if it has one: Delta's reader may be there, or not.
    """
    chosen = _read_options(options)
    with open_table(uri, table, **chosen.opening) as (_, found):
        return _plan(SparkSession.getActiveSession(), found, chosen)[1]


def attach(spark: SparkSession, uri: str | None = None, **options: Any) -> tuple[str, ...]:
    """Make every table of a catalog a temporary view, at its newest version; return their names.

    A table of a namespace becomes `namespace_name`, because a temporary view has one name. Views
    that an earlier call made of tables which are gone by now are dropped.
    """
    chosen = _read_options(options)
    views: dict[str, str] = {}
    with open_catalog(uri, **chosen.opening) as catalog:
        for info in catalog.tables():
            view = info.name.replace(".", "_")
            if view in views:
                raise BadArgumentError(f"Two tables would become the view {view}.")
            frame = _frame(spark, uri, catalog.table(info.name), chosen)
            mark_attached(frame, AttachedTable(catalog.catalog_id, info.name))
            frame.createOrReplaceTempView(view)
            views[view] = info.name
        note_views(spark, catalog.catalog_id, views)
    return tuple(views)


def _read_options(options: Mapping[str, Any]) -> ReadOptions:
    """Return the options of a read.

    Raises:
        BadArgumentError: there is no such option.
    """
    try:
        return ReadOptions(**options)
    except TypeError:
        known = list(ReadOptions.__slots__)
        wrong = ", ".join(sorted(set(options) - set(known)))
        raise BadArgumentError(
            f"There is no option {wrong} of a read.", hint=f"There are: {', '.join(known)}."
        ) from None


def _plan(
    spark: SparkSession | None, table: Table, options: ReadOptions
) -> tuple[Snapshot, ReadPlan]:
    zone = session_zone(spark)
    moment = None if options.timestamp is None else to_ms(options.timestamp, zone)
    snapshot = table.snapshot(options.version, moment)
    wanted = understood(snapshot, options.where, zone)
    partitions = snapshot.metadata.partition_columns
    sound = pushable_part(wanted.predicate, snapshot.schema, partitions)
    plan = plan_read(snapshot, table.store, sound)
    plan = replace(plan, rows=_rows(snapshot, plan, wanted))
    is_ours = plan.way == "python" and isinstance(table.store, LocalStore)
    if is_ours and is_classic(spark) and delta_can_scan(spark, snapshot, plan.files):
        require_values(snapshot, plan.files)
        return snapshot, replace(plan, way="delta")
    return snapshot, plan


def _frame(spark: SparkSession, uri: str | None, table: Table, options: ReadOptions) -> DataFrame:
    snapshot, plan = _plan(spark, table, options)
    if plan.way == "native" and is_classic(spark):
        frame = _native_frame(spark, snapshot, plan)
    elif plan.way == "delta":
        frame = scan_by_delta(spark, snapshot, plan.predicate)
    else:
        found = table_options(uri, plan.table, options.storage_options, zone_name(spark))
        given = source_options(plan.version, options.where)
        frame = spark.read.format(SOURCE).options(**found, **given).load()
    if options.version is None and options.timestamp is None:
        mark_read(frame, table.table_id, plan.version)
    if options.where is not None:
        frame = _filtered(frame, options.where)
    if options.columns is not None:
        frame = frame.select(*_columns(snapshot, options.columns))
    return _counted(frame, plan.rows)


def _filtered(frame: DataFrame, where: str) -> DataFrame:
    try:
        return frame.where(where)
    except AnalysisException as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise BadPredicateError(f"Spark does not take the filter: {reason}.") from error


def _rows(snapshot: Snapshot, plan: ReadPlan, wanted: UnderstoodFilter) -> int | None:
    """Return how many rows a filter of Spark's keeps, if SQL knows it."""
    if plan.predicate != wanted.predicate or not wanted.is_whole:
        return None
    partitions = physical_partition_columns(snapshot.metadata)
    is_whole = chooses_whole_files(plan.files, plan.predicate, partitions)
    return exact_rows(plan.files) if is_whole else None


def _native_frame(spark: SparkSession, snapshot: Snapshot, plan: ReadPlan) -> DataFrame:
    mode = mapping_mode(snapshot.metadata.configuration)
    schema = physical_schema(snapshot.schema, mode)
    partitions = snapshot.metadata.partition_columns
    names = {one.name: physical_name(one, mode) for one in snapshot.schema.fields}
    columns = tuple(names[name] for name in partitions)
    frame = scan_natively(spark, FileList(schema, columns, dict(plan.directories), plan.paths))
    if mode == "none":
        return frame
    wanted = spark_schema(snapshot.schema)
    renamed = [
        fn.col(_quoted(names[one.name])).cast(one.dataType).alias(one.name, metadata=one.metadata)
        for one in wanted.fields
    ]
    return frame.select(*renamed)


def _columns(snapshot: Snapshot, columns: Sequence[str]) -> list[Column]:
    missing = [name for name in columns if find_field(snapshot.schema, name) is None]
    if missing:
        raise BadArgumentError(f"The table has no column {', '.join(missing)}.")
    return [fn.col(_quoted(name)) for name in columns]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
