"""Tables as DataFrames: what Spark users call. It loads pyspark, which nothing below does."""

from deltasql.spark.change_feed import read_changes
from deltasql.spark.datasource import register
from deltasql.spark.read import attach, explain, read
from deltasql.spark.session import session
from deltasql.spark.transaction import run_transaction, sql, transaction
from deltasql.spark.write import write

__all__ = [
    "attach",
    "explain",
    "read",
    "read_changes",
    "register",
    "run_transaction",
    "session",
    "sql",
    "transaction",
    "write",
]
