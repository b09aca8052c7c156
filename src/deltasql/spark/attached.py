"""Which temporary views `attach` has made of which tables: a session remembers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = "spark.deltasql.attached"


def note_views(spark: SparkSession, views: Mapping[str, str]) -> None:
    """Remember the tables of views, by the names of the views."""
    spark.conf.set(_KEY, json.dumps({**attached_views(spark), **views}))


def attached_views(spark: SparkSession) -> dict[str, str]:
    """Return the tables of all views that were made, by the names of the views."""
    found: dict[str, str] = json.loads(spark.conf.get(_KEY, "{}") or "{}")
    return found
