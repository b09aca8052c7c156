"""The temporary views that `attach` makes of the tables of a catalog, and removes again.

A session remembers their names. Whether a view is still the one that was made, its plan tells: a
user may have put another in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltasql.spark.read_marks import AttachedTable, attached_table, is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = "spark.deltasql.attached"


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
