"""A driver on a cluster, in a process of its own: `cluster_driver.py MASTER URI MARKS`.

It writes, reads and merges. Every task of the write leaves a mark that names its executor's
process, and takes its time, so that a test can kill it in the middle.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROWS = 8_000
_TESTS = Path(__file__).parent


def start(master: str, uri: str, marks: Path) -> subprocess.Popen[str]:
    """Begin a driver."""
    import delta_spark

    paths = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "JAVA_HOME": delta_spark.find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    pipe = subprocess.PIPE
    command = [sys.executable, str(Path(__file__)), master, uri, str(marks)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own)


def session(master: str) -> Any:
    """Return a session on the cluster, with Delta's jars."""
    from pyspark.sql import SparkSession

    import delta_spark
    from spark_cluster import CONF

    conf = {
        **CONF,
        "spark.jars": ",".join(delta_spark.find_jars()),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": "/nowhere",
    }
    return SparkSession.builder.master(master).config(map=conf).getOrCreate()


def slowly(marks: str) -> Any:
    """Return a function over batches that notes its executor and waits."""

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time
        import uuid
        from pathlib import Path

        def parent(pid: int) -> int:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

        for batch in batches:
            # the worker's parent is the daemon, and that one's the executor
            Path(marks, uuid.uuid4().hex).write_text(str(parent(os.getppid())))
            yield batch
            time.sleep(3)

    return passed


def main(master: str, uri: str, marks: str) -> None:
    import deltasql.spark

    spark = session(master)
    frame = spark.range(ROWS, numPartitions=4).mapInArrow(slowly(marks), "id long")
    version = deltasql.spark.write(frame, uri, "t")
    read = deltasql.spark.read(spark, uri, "t").selectExpr("count(*)", "sum(id)").first()
    deltasql.spark.sql(
        spark,
        uri,
        f"MERGE INTO t USING (SELECT id FROM range({ROWS - 5}, {ROWS + 5})) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    )
    print(json.dumps({"version": version, "read": list(read)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
