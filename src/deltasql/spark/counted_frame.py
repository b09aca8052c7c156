"""A DataFrame whose rows SQL has counted already: count() answers without a job.

What is derived from it is an ordinary DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CountedFrame(ClassicFrame):
    """The rows of one version of a table, or of some of its partitions."""

    rows: int

    def count(self) -> int:
        """Return the number of rows, as SQL knows it."""
        return self.rows


def counted(frame: DataFrame, rows: int | None) -> DataFrame:
    """Return the same DataFrame; with a number of rows, one that knows it."""
    if rows is None or not isinstance(frame, ClassicFrame):
        return frame
    found = CountedFrame(frame._jdf, frame.sparkSession)  # noqa: SLF001 (as Spark makes its own)
    found.rows = rows
    return found
