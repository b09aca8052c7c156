"""A stream in a process of its own, to be killed: `spark_streamer.py URI FOLDER MODE`.

Every batch is a file of its own, named by its number and put in place as a whole, so that a batch
which is run again replaces itself. It tells the JVM's process when the stream runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FILES = 2
_SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


def start(uri: str, folder: Path, mode: str) -> subprocess.Popen[str]:
    """Begin to read `orders`: `running` until it is killed, or `drain` what is there."""
    words = [sys.executable, str(Path(__file__)), uri, str(folder), mode]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def batches(folder: Path) -> dict[str, list[int]]:
    """Return the ids of the batches by the names of their files."""
    return {file.name: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}


def put(folder: Path, number: int, found: list[int]) -> None:
    """Write a batch, whole or not at all."""
    file = folder / f"{number:06}.json"
    half = file.with_suffix(".half")
    half.write_text(json.dumps(sorted(found)))
    half.replace(file)


def main() -> None:
    from deltasql.jobs.session import import_session

    uri, folder, mode = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    spark = import_session("local[2]", _SMALL).spark
    reader = spark.readStream.format("deltasql").option("uri", uri).option("table", "orders")
    stream = reader.option("maxFilesPerTrigger", FILES).load()

    def take(frame: Any, number: int) -> None:
        put(folder, number, [row.id for row in frame.select("id").collect()])

    trigger: dict[str, Any] = {"availableNow": True}
    if mode == "running":
        trigger = {"processingTime": "0 seconds"}
    writer = stream.writeStream.foreachBatch(take).trigger(**trigger)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    query.awaitTermination()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main()
