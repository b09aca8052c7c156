"""DataFrames so small that the driver writes them faster than a job would.

What is known without running anything decides: rows that the driver has already, or that come
first in a plan without filters, joins or shuffles, so that looking at a few of them is cheap.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasql.spark.causes import told_by_spark

SMALL_ROWS = 5_000
_SMALL_BYTES = 16 * 1024 * 1024
# What Spark calls rows of the driver, and steps that make one row of one row.
_SOURCES = frozenset({"LocalRelation", "LogicalRDD", "Range", "OneRowRelation", "EmptyRelation"})
_STEPS = frozenset({"Project", "GlobalLimit", "LocalLimit", "SubqueryAlias"})


def collect_small(frame: DataFrame) -> pa.Table | None:
    """Return all rows of a DataFrame if they are few and easily had, else None."""
    with told_by_spark():
        if not _is_easy(frame):
            return None
        try:
            rows = frame.limit(SMALL_ROWS + 1).toArrow()
        except pa.ArrowException:
            return None  # PySpark cannot show a null struct whose members are never null
    return rows if rows.num_rows <= SMALL_ROWS else None


def _is_easy(frame: DataFrame) -> bool:
    inner: Any = getattr(frame, "_jdf", None)
    if inner is None:  # Spark Connect shows no plans
        return False
    plan = inner.queryExecution().optimizedPlan()
    while plan.nodeName() in _STEPS:
        plan = plan.children().apply(0)
    if plan.nodeName() == "LogicalRDD":  # Spark knows nothing of its size
        return True
    return plan.nodeName() in _SOURCES and int(plan.stats().sizeInBytes()) <= _SMALL_BYTES
