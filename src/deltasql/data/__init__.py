"""Rows in Parquet files: written with statistics, read with deletion vectors.

Features, the API and Spark may import it. Start with `writer` and `scanner`.
"""
