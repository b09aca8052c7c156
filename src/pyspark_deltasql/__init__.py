"""By this name Spark finds `format("deltasql")` without being told of it."""

from deltasql.spark.source.datasource import DeltaSqlSource as DefaultSource

__all__ = ["DefaultSource"]
