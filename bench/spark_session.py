"""Sessions of the cases on Spark: the same settings for all, Delta's jars where they belong."""

import os
from pathlib import Path
from typing import Any

from bench.child import CaseFailedError
from bench.server import ROOT

MASTER = "local[2]"
_CONF = {
    "spark.driver.memory": "6g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def jars() -> Path:
    """Return the folder of Delta's jars."""
    found = Path(os.environ.get("DELTASQL_TEST_JARS") or ROOT / ".tools/jars")
    if not list(found.glob("delta-spark_*.jar")):
        raise CaseFailedError("Delta's jars cannot be had (make servers)")
    return found


def start(contender: str, *, with_delta: bool = False) -> Any:
    """Return a new session as a contender's users start it."""
    import deltasql.spark

    delta: Any = jars() if contender == "delta" or with_delta else False
    return deltasql.spark.session(MASTER, delta=delta, conf=_CONF)


def memory_mb(spark: Any) -> int:
    """Return the peak of the driver's JVM."""
    pid = spark.sparkContext._gateway.proc.pid
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024
