"""`format("deltasql")`: batch reads and writes as a Spark data source.

Spark loads `datasource`; start there.
"""
