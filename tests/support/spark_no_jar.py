"""Everything that works in a session without Delta's jar, in a process of its own: `… URI PLACE`.

It tells as JSON what the table holds after each step, and what is said where the jar is needed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltasql
from deltasql.errors import DeltaSqlError


def run(uri: str, place: Path) -> dict[str, Any]:
    """Run it all and return what was told."""
    words = [sys.executable, str(Path(__file__)), uri, str(place)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path])}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def steps(uri: str, place: str) -> dict[str, Any]:
    from deltasql import spark as ds
    from deltasql.spark_runtime.launch import import_session

    spark = import_session("local[2]", {}).spark
    told: dict[str, Any] = {}

    def frame(*numbers: int, day: str) -> Any:
        return spark.createDataFrame([(n, day) for n in numbers], "id long, day string")

    def now(step: str) -> None:
        with deltasql.connect(uri) as catalog:
            rows = catalog.table("orders").scan().to_arrow().to_pylist()
        told[step] = sorted([row["id"], row["day"]] for row in rows)

    ds.write(frame(1, 2, day="a"), uri, "orders", location=place, partition_by=["day"])
    sink = frame(3, day="b").write.format("deltasql").option("table", "orders")
    sink.mode("append").save(uri)
    now("append")
    how = {"mode": "overwrite", "replace_where": "day = 'b'"}
    ds.write(frame(4, day="b"), uri, "orders", **how)
    now("replaceWhere")
    dynamic = {"mode": "overwrite", "partition_overwrite_mode": "dynamic"}
    ds.write(frame(5, 6, day="a"), uri, "orders", **dynamic)
    ds.write(frame(7, day="a"), uri, "orders")
    now("dynamic")
    with deltasql.connect(uri) as catalog:
        table = catalog.table("orders")
        files = table.snapshot().files(["path"]).num_rows
        table.compact()
        told["fewer files"] = table.snapshot().files(["path"]).num_rows < files
        now("compact")
        table.delete("day = 'b'")
        now("delete")
        table.restore(version=1)
        now("restore")
    frame(8, day="c").write.format("deltasql").option("table", "orders").mode("overwrite").save(uri)
    now("overwrite")
    told["read"] = [row.id for row in ds.read(spark, uri, "orders").collect()]
    for name, call in {
        "sql": lambda: ds.sql(spark, uri, "DELETE FROM orders WHERE id = 8"),
        "transaction": lambda: ds.transaction(spark, uri).__enter__(),
    }.items():
        try:
            call()
        except DeltaSqlError as error:
            told[name] = [error.code, error.message, error.advice]
    now("refused")
    return told


if __name__ == "__main__":
    print(json.dumps(steps(sys.argv[1], sys.argv[2])))
