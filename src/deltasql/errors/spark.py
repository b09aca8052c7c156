"""What Spark says."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class SparkJobError(DeltaSqlError):
    """A job that ran on Spark failed."""

    code = "DS700"
    hint = "Nothing was committed; mend the cause and run it again."
