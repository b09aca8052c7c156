"""Java and Spark processes: what the import engine and the Spark API share.

Imports on Spark and `deltasql.spark` use it. Start with `launch`.
"""
