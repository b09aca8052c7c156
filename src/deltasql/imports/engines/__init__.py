"""Where the tasks of an import run: in this process, in child processes, on Spark.

`imports.job` and the API use it. Start with `local`.
"""
