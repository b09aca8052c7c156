"""What users hold: catalogs, tables, transactions, scans.

Spark and the command line are built on it. Start with `connect`, then `catalog` and `table`.
"""
