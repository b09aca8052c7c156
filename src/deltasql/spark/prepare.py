"""prepare: let Spark run once and keep the classes that its JVM has loaded, for faster starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import deltasql
from deltasql.errors import SparkJobError
from deltasql.jobs.class_archive import archive_path, recording_options
from deltasql.jobs.environment import spark_environment

_MASTER = "local[1]"
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Prepared:
    """The archive that sessions of this Java and this Spark use from now on."""

    path: Path
    bytes: int


def prepare() -> Prepared:
    """Start Spark, write and read a table, and keep the archive of the classes in the cache.

    Raises:
        MissingExtraError: there is no Java.
        SparkJobError: Spark does not run, or its Java keeps no archive.
    """
    own = {**os.environ, **spark_environment(_MASTER)}
    target = archive_path(own["JAVA_HOME"], os.environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    # a JVM that is killed while it writes must not leave half an archive under the name
    unfinished = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
    try:
        _record(own, unfinished)
        size = unfinished.stat().st_size
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return Prepared(target, size)


def _record(env: dict[str, str], target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="deltasql-prepare-") as place:
        done = subprocess.run(  # noqa: S603 (this very program)
            [sys.executable, "-m", __name__, recording_options(target)],
            env=env,
            cwd=place,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode or not target.is_file():
        told = [line for line in done.stderr.splitlines() if line.strip()]
        raise SparkJobError(
            f"Spark's classes could not be kept: {told[-1] if told else 'no archive was written'}",
            hint="Sessions start without an archive too. Does Spark run, and is Java 17 or newer?",
        )


def _rehearse(java_options: str) -> None:
    """Do what the first minute of a session does; the JVM writes the archive when it ends."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (in the child only)

    builder = SparkSession.builder.master(_MASTER)
    spark = builder.config("spark.driver.extraJavaOptions", java_options).getOrCreate()
    catalog = "deltasql://sqlite/rehearsal.db"
    rows = spark.range(10_000).selectExpr("id", "cast(id % 7 as string) as day", "id * 1.5 as sum")
    location = str(Path.cwd() / "rows")
    deltasql.spark.write(rows, catalog, "rows", location=location, partition_by=["day"])
    found = deltasql.spark.read(spark, catalog, "rows", where="day = '3'")
    found.groupBy("day").sum("sum").orderBy("day").collect()
    found.where("id > 100").toArrow()
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (its JVM is waited for)
    spark.stop()
    assert gateway is not None  # noqa: S101 (a classic session has one)
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(_SECONDS)


if __name__ == "__main__":
    _rehearse(sys.argv[1])
