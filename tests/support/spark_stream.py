"""A stream from a table into another, in a process of its own: `spark_stream.py URI PLACE MODE`.

The JVM and the Python workers are of its process group, so that all of them die at once.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE, SINK = "orders", "copies"
_SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
_TRIGGERS: dict[str, dict[str, Any]] = {
    "running": {"processingTime": "0 seconds"},
    "drain": {"availableNow": True},
}


def start(uri: str, checkpoint: Path, mode: str, **env: str) -> subprocess.Popen[str]:
    """Begin a stream, file by file: `running` until it is killed, or to `drain` what is there."""
    words = [sys.executable, str(Path(__file__)), uri, str(checkpoint), mode]
    pipe = subprocess.PIPE
    own = {**os.environ, **env}
    return subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, env=own, start_new_session=True
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill it with everything that it has started, as a lost machine does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def main() -> None:
    from deltasql.spark_runtime.launch import import_session

    uri, checkpoint, mode = sys.argv[1:]
    spark = import_session("local[2]", _SMALL).spark
    reader = spark.readStream.format("deltasql").option("uri", uri).option("table", SOURCE)
    frame = reader.option("maxFilesPerTrigger", 1).load()
    writer = frame.writeStream.format("deltasql").option("table", SINK)
    writer = writer.option("checkpointLocation", checkpoint).trigger(**_TRIGGERS[mode])
    writer.start(uri).awaitTermination()


if __name__ == "__main__":
    main()
