"""DataFrames so small that the driver writes them faster than a job would.

What Spark knows without running anything decides: a plan that cannot give more rows than a few, or
rows that Python has handed over as they are, where looking at the first of them is cheap.
"""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

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
