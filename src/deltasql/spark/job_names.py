"""What Spark's page calls our jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Give the jobs of the block a name, where the user has given none.

    Through Spark Connect there is no way to do so.
    """
    context = spark.sparkContext if hasattr(spark, "_jsparkSession") else None
    if context is None or context.getLocalProperty(_DESCRIPTION) is not None:
        yield
        return
    context.setLocalProperty(_DESCRIPTION, name)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, None)  # type: ignore[arg-type] # Java's null: no name
