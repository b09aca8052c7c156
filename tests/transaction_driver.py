"""Transactions by Spark in a process of their own: `transaction_driver.py KIND URI [NUMBER]`.

`three` is a driver to be killed: it borrows the JVM of the process that started it, which lives
on, so that many can be killed in little time. `count` has a Spark of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import delta_spark
import deltasql.spark
from borrowed_spark import borrowed_session

_TESTS = Path(__file__).parent


def start(kind: str, uri: str, *words: str, **env: str) -> subprocess.Popen[str]:
    """Begin a driver."""
    paths = [str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **env}
    command = [sys.executable, str(Path(__file__)), kind, uri, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=own)


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
