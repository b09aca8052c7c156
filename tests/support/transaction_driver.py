"""Transactions by Spark in a process of their own: `transaction_driver.py KIND URI [NUMBER]`.

`three` is a driver to be killed: it borrows the JVM of the process that started it, which lives
on, so that many can be killed in little time. `count` has a Spark of its own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import delta_spark
import deltasql.spark

_TESTS = Path(__file__).parent
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def start(kind: str, uri: str, *words: str, **env: str) -> subprocess.Popen[str]:
    """Begin a driver."""
    paths = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **env}
    command = [sys.executable, str(Path(__file__)), kind, uri, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own)


def lent() -> dict[str, str]:
    """Return the environment in which a driver borrows this process's JVM."""
    gateway = delta_spark.session().sparkContext._gateway
    parameters = gateway.java_parameters
    return {_PORT: str(parameters.port), _SECRET: parameters.auth_token}


def borrowed_session() -> Any:
    """Return a new session in the JVM of another process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    java = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(_jvm=jvm, _jconf=java.getConf())
    first = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    return SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf), first.newSession())


def three(uri: str) -> None:
    """Change three tables in one transaction."""
    with deltasql.spark.transaction(borrowed_session(), uri) as tx:
        tx.sql("UPDATE a SET n = n + 1")
        tx.sql("INSERT INTO b SELECT n FROM a")
        tx.sql("INSERT INTO c SELECT count(*) FROM b")


def count(uri: str, times: int) -> None:
    """Add one to a number so many times, each time by a MERGE that may have to run again."""
    session = delta_spark.session()
    for _ in range(times):
        deltasql.spark.run_transaction(
            session,
            uri,
            lambda tx: tx.sql(
                "MERGE INTO a USING (SELECT 1 AS one) s ON true "
                "WHEN MATCHED THEN UPDATE SET n = n + one"
            ),
            retries=50,
        )


if __name__ == "__main__":
    if sys.argv[1] == "three":
        three(sys.argv[2])
    else:
        count(sys.argv[2], int(sys.argv[3]))
