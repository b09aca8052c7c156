"""Transactions of stock Delta Spark over many tables, on staged logs.

`deltasql.spark` exports what users call. Start with `spark_transaction`.
"""
