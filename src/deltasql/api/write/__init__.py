"""Writes of the API, from arguments to one commit.

`table`, `transaction` and Spark use it. Start with `driver`: pin, stage, commit.
"""
