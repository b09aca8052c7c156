"""Spark's limits of a batch, which PySpark 4.1 does not know."""

from __future__ import annotations

from typing import Any

from deltasql.spark.admission import Admission
from deltasql.spark.follow_options import FollowOptions

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # PySpark 4.1
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for a class that is not there."""


def default_limit(options: FollowOptions) -> Any:
    """Return the limit that Spark shows and gives back; our own are kept, whatever it is."""
    if options.max_files is not None:
        return ReadMaxFiles(options.max_files)
    return ReadMaxBytes(options.max_bytes or 0)


def room_of(options: FollowOptions, limit: Any = None) -> Admission:
    """Return how much a batch takes: no limit where Spark wants all there is."""
    if HAS_LIMITS and isinstance(limit, ReadAllAvailable):
        return Admission()
    return Admission(options.max_files, options.max_bytes)


__all__ = ["SupportsTriggerAvailableNow", "default_limit", "room_of"]
