"""Tables as DataFrames: what Spark users call. It loads pyspark, which nothing below does."""

from __future__ import annotations

from deltasql.spark.write import write

__all__ = ["write"]
