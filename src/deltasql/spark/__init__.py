"""Tables as DataFrames: what Spark users call. It loads pyspark, which nothing below does.

The names below are public; the folders hold sessions, reads, writes, the data source, streams and
transactions. Only the command line may import it. Start with `read.dataframe`.
"""

from deltasql.spark.read.dataframe import attach, explain, read
from deltasql.spark.session.spark_session import session
from deltasql.spark.source.datasource import register
from deltasql.spark.streaming.change_feed import read_changes
from deltasql.spark.transactions.spark_transaction import run_transaction, sql, transaction
from deltasql.spark.write.dataframe_writer import write

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
