"""Streams and the change feed: commits in order, in batches.

The data source and `deltasql.spark` use it. Start with `stream_reader`, then `batches`.
"""
