"""The guide to Spark is one program that prints what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import delta_spark

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@pytest.mark.verify
def test_the_guide_prints_what_it_says(tmp_path):
    given = [f"--conf {key}={value}" for key, value in CONF.items()]
    jars = ",".join(delta_spark.find_jars())
    own = {
        "JAVA_HOME": delta_spark.find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --jars {jars} {' '.join(given)} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = "\n".join(BLOCK.findall((ROOT / "docs/start/spark.md").read_text(encoding="utf-8")))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = re.findall(r"print\(.*\)\s+# (.*)$", program, re.MULTILINE)
    assert done.stdout.splitlines() == told
