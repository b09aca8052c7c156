"""The time zone of a session: there, as in Delta Spark, a time lies that names none."""

from __future__ import annotations

from datetime import UTC, tzinfo

from pyspark.sql import SparkSession

from deltasql.protocol.time_zones import parse_zone

_ZONE = "spark.sql.session.timeZone"


def zone_name(spark: SparkSession | None) -> str:
    """Return the zone's name; without a session it is UTC."""
    return "UTC" if spark is None else str(spark.conf.get(_ZONE))


def session_zone(spark: SparkSession | None) -> tzinfo:
    """Return the zone.

    Raises:
        BadArgumentError: the session has a zone that Python does not know.
    """
    return UTC if spark is None else parse_zone(zone_name(spark))
