"""Spark's errors as ours: one class, one line, whatever the JVM threw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltasql.errors import DeltaSqlError, SparkJobError
from deltasql.jobs.causes import first_cause


@contextmanager
def told_by_spark() -> Iterator[None]:
    """Raise what Spark refuses inside the block as an error of ours.

    Raises:
        SparkJobError: says the cause in one line.
    """
    try:
        yield
    except DeltaSqlError:
        raise
    except Exception as error:
        raise SparkJobError(f"The Spark job failed: {first_cause(error)}") from error
