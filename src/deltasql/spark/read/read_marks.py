"""Marks on the plans of DataFrames and the temporary views of `attach`: which version they read.

Spark carries marks of a plan's nodes along, whatever is derived from a DataFrame and whatever view
is made of it. Through Spark Connect there are none.

The temporary views that `attach` makes of the tables of a catalog, and removes again. A session
remembers their names. Whether a view is still the one that was made, its plan tells: a user may
have put another in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READ = "deltasql.read"
_ATTACHED = "deltasql.attached"

_KEY = "spark.deltasql.attached"


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """A table of a catalog that has a view."""

    catalog_id: str
    table: str


def mark_read(frame: DataFrame, table_id: str, version: int) -> None:
    """Note that a DataFrame reads the newest version of a table, as it was."""
    if not is_classic(frame.sparkSession):
        return
    tag = _tag(frame.sparkSession, _READ)
    for leaf in _items(_plan(frame).collectLeaves()):
        leaf.setTagValue(tag, f"{table_id} {version}")


def versions_read(frame: DataFrame, table_id: str) -> set[int]:
    """Return the versions of a table that a DataFrame was made from; explicit ones do not count."""
    spark = frame.sparkSession
    if not is_classic(spark):
        return set()
    tag, found = _tag(spark, _READ), set()
    for leaf in _leaves(_plan(frame)):
        mark = leaf.getTagValue(tag)
        if mark.isDefined():
            marked, _, version = str(mark.get()).partition(" ")
            if marked == table_id:
                found.add(int(version))
    return found


def mark_attached(frame: DataFrame, table: AttachedTable) -> None:
    """Note that a DataFrame is about to become the view of a table."""
    if is_classic(frame.sparkSession):
        text = f"{table.catalog_id} {table.table}"
        _plan(frame).setTagValue(_tag(frame.sparkSession, _ATTACHED), text)


def attached_table(spark: SparkSession, view: str) -> AttachedTable | None:
    """Return the table that `attach` made a temporary view of; None for any other view."""
    session: Any = spark._jsparkSession  # noqa: SLF001 (the only door)
    found = session.sessionState().catalog().getTempView(view)
    if not found.isDefined():
        return None
    mark = found.get().child().getTagValue(_tag(spark, _ATTACHED))
    if not mark.isDefined():
        return None
    catalog_id, _, table = str(mark.get()).partition(" ")
    return AttachedTable(catalog_id, table)


def is_classic(spark: SparkSession | None) -> TypeGuard[SparkSession]:
    """Tell whether Spark's own parts can be reached: through Spark Connect they cannot."""
    return hasattr(spark, "_jsparkSession")


def _leaves(plan: Any) -> Iterator[Any]:
    yield from _items(plan.collectLeaves())
    for query in _items(plan.subqueriesAll()):
        yield from _items(query.collectLeaves())


def _items(sequence: Any) -> Iterator[Any]:
    for number in range(sequence.length()):
        yield sequence.apply(number)


def _plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def _tag(spark: Any, name: str) -> Any:
    return spark._jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(name)  # noqa: SLF001


def note_views(spark: SparkSession, catalog_id: str, views: Mapping[str, str]) -> None:
    """Remember the views of a catalog's tables; those of tables that are gone are dropped."""
    known = _remembered(spark)
    for view, table in known.pop(catalog_id, {}).items():
        if view not in views and _is_ours(spark, view, AttachedTable(catalog_id, table)):
            spark.catalog.dropTempView(view)
    spark.conf.set(_KEY, json.dumps({**known, catalog_id: dict(views)}))


def _is_ours(spark: SparkSession, view: str, table: AttachedTable) -> bool:
    return not is_classic(spark) or attached_table(spark, view) == table


def _remembered(spark: SparkSession) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(spark.conf.get(_KEY, "{}") or "{}")
    return found
