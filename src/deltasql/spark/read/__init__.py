"""DataFrames of one version of a table, planned in SQL.

`deltasql.spark` exports what users call. Start with `dataframe`.
"""
