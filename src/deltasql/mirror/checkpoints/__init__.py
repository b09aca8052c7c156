"""Checkpoints of the mirror: written from SQL, in the background, and compared with SQL.

The mirror, maintenance and the API use it. Start with `write`.
"""
