"""DataFrames written as one commit, by Spark's own Parquet writer.

`deltasql.spark` exports what users call. Start with `dataframe_writer`.
"""
