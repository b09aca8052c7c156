"""What Spark says."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class SparkJobError(DeltaSqlError):
    """A job that ran on Spark failed."""

    code = "DS700"
    hint = "Nothing was committed; mend the cause and run it again."


class StreamError(DeltaSqlError):
    """A stream cannot go on from where it is."""

    code = "DS710"
    exit_code = 4
    hint = "Start a new query with a new checkpoint."


class ChangeDataMissingError(DeltaSqlError):
    """The changes of a version were not recorded."""

    code = "DS711"
    exit_code = 4
    hint = "The history shows where delta.enableChangeDataFeed was set; begin at such a version."
