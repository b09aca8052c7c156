"""Reading tasks of an import: commits and checkpoints as rows.

The engines run it, also in child processes and on Spark. Start with `tasks`.
"""
