"""Tables as DataFrames: what Spark users call. It loads pyspark, which nothing below does."""

from __future__ import annotations

from deltasql.spark.transaction import run_transaction, sql, transaction

__all__ = ["run_transaction", "sql", "transaction"]
