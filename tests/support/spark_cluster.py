"""A standalone Spark cluster on the loopback, from the jars of pyspark: a master and two workers.

The workers have addresses of their own: Spark runs a second attempt of a slow task only on another
host than the first.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from deltasql.spark_runtime.java import find_java
from server_process import Server, Unavailable, free_port, start

WORKERS = ("127.0.0.1", "127.0.0.2")
_TESTS = Path(__file__).parent
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
# What a driver says to this cluster: small executors, and no task before both are there.
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@contextmanager
def cluster() -> Iterator[str]:
    """Give the URL of a running master with its workers."""
    with ExitStack() as stack:
        port = free_port()
        _serve(stack, _MASTER, "127.0.0.1", "--port", str(port))
        for host in WORKERS:
            words = ["--cores", "1", "--memory", "640m", "--work-dir", "{files}"]
            _serve(stack, _WORKER, host, *words, f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"


def _serve(stack: ExitStack, kind: str, host: str, *words: str) -> Server:
    """Start one of the processes; its web page, which nobody reads, tells that it is there."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise Unavailable("pyspark is not installed")
    home, page = Path(found.origin).parent, free_port()
    env = {
        "JAVA_HOME": find_java(os.environ),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # what the tasks of tests import
        "PYTHONPATH": str(_TESTS),
    }
    options = ["--host", host, "--webui-port", str(page)]
    command = [home / "bin/spark-class", kind, *options, *words]
    server = start(command, page, host=host, env=env)
    stack.callback(server.stop)
    return server
