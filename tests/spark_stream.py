"""A stream into a table in a process of its own, to be killed: `spark_stream.py URI IN CHECKPOINT`.

The JVM and the Python workers are of its process group, so that all of them die at once.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

TABLE = "orders"


def start(uri: str, arriving: Path, checkpoint: Path, **env: str) -> subprocess.Popen[str]:
    """Begin a stream of all files that are there, one by one; it ends with them."""
    words = [sys.executable, str(Path(__file__)), uri, str(arriving), str(checkpoint)]
    pipe = subprocess.PIPE
    own = {**os.environ, **env}
    return subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, env=own, start_new_session=True
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill it with everything that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def main() -> None:
    from deltasql.jobs.session import import_session

    uri, arriving, checkpoint = sys.argv[1:]
    spark = import_session("local[2]", {"spark.ui.enabled": "false"}).spark
    print("ready", flush=True)
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(arriving)
    writer = frame.writeStream.format("deltasql").option("table", TABLE)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(uri).awaitTermination()


if __name__ == "__main__":
    main()
