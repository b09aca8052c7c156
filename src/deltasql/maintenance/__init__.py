"""The work of operators: vacuum, log cleanup, recovery, repair, drop and unfence.

The API and above may import it. Each module is one command; `settlement` decides contested
versions for `repair`.
"""
