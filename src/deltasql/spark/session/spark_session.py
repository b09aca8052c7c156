"""A session of Spark that suits deltasql: started fast, with Delta's jar where it is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from deltasql.errors import BadArgumentError
from deltasql.jobs.environment import environment, spark_environment
from deltasql.spark.delta import delta_settings, require_delta

_DEFAULT_MASTER = "local[*]"
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
