"""A Spark session that suits deltasql: its start, time zone and job names, and Spark's errors as
ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, tzinfo
from pathlib import Path

from pyspark.sql import SparkSession

from deltasql.errors import BadArgumentError, DeltaSqlError, SparkJobError
from deltasql.protocol.values import parse_zone
from deltasql.spark.session.delta_jar import delta_settings, require_delta
from deltasql.spark_runtime.java import environment, spark_environment
from deltasql.spark_runtime.launch import first_cause

_DESCRIPTION = "spark.job.description"

_DEFAULT_MASTER = "local[*]"


@contextmanager
def translate_spark_errors() -> Iterator[None]:
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


@contextmanager
def told_with_code() -> Iterator[None]:
    """Put an error's code before its words and its hint after them."""
    try:
        yield
    except DeltaSqlError as error:
        hint = f" hint: {error.advice}" if error.advice else ""
        raise type(error)(
            f"error[{error.code}]: {error.message}{hint}", hint="", **error.context
        ) from None


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


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Give the jobs of the block a name, where the user has given none.

    Through Spark Connect there is no way to do so.
    """
    context = spark.sparkContext if hasattr(spark, "_jsparkSession") else None
    if context is None or context.getLocalProperty(_DESCRIPTION) is not None:
        yield
        return
    context.setLocalProperty(_DESCRIPTION, name)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, None)  # type: ignore[arg-type] # Java's null: no name


_SETTINGS = {
    "spark.app.name": "deltasql",
    # Delta's own writer follows the session: INT96 has no bounds in the footer
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Delta refuses tables whose columns are mapped by id without it
    "spark.sql.parquet.fieldId.read.enabled": "true",
}


def session(
    master: str | None = None,
    *,
    delta: bool | str | Path = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session that is there, or start one; reading and writing need no jar.

    `delta` brings Delta Spark, which transactions need: True gets its jar by its name, a path is
    a directory that holds it. `conf` goes before what is set here. Without Java on the machine
    the one from pip is taken.

    Raises:
        MissingExtraError: Java is missing, or the running session has no Delta.
        BadArgumentError: the running session has another master.
    """
    found = SparkSession.getActiveSession()
    if found is not None:
        return _suiting(found, master, wants_delta=delta is not False)
    chosen = master or _DEFAULT_MASTER
    given = {**_SETTINGS, **delta_settings(delta), **(conf or {}), "spark.master": chosen}
    with environment(spark_environment(chosen)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's opinion of the pandas beside it
        return SparkSession.builder.config(map=dict(given)).getOrCreate()


def _suiting(found: SparkSession, master: str | None, *, wants_delta: bool) -> SparkSession:
    running = found.conf.get("spark.master", None)
    if master is not None and master != running:
        raise BadArgumentError(
            f"A Spark session with the master {running} is active in this process.",
            hint="Leave the master out to use it, or stop it first.",
        )
    if wants_delta:
        require_delta(found)
    return found
