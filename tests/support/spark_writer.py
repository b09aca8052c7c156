"""A write by Spark in a process of its own, to be killed: `spark_writer.py URI ROWS`."""

import os
import subprocess
import sys
from pathlib import Path

TOKEN = "killed"


def start(uri: str, rows: int, **env: str) -> subprocess.Popen[str]:
    """Begin a write of that many rows to the table `orders`."""
    words = [sys.executable, str(Path(__file__)), uri, str(rows)]
    own = {**os.environ, **env}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=own)


def main() -> None:
    from deltasql.spark import write
    from deltasql.spark_runtime.launch import import_session

    uri, rows = sys.argv[1], int(sys.argv[2])
    spark = import_session("local[2]", {}).spark
    frame = spark.range(rows, numPartitions=2).where("id >= 0")
    print(write(frame, uri, "orders", commit_id=TOKEN))


if __name__ == "__main__":
    main()
