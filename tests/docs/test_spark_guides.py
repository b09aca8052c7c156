"""The guides to Spark are programs that print what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import delta_spark

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOLD = re.compile(r"^[^#\n]*(?:print\(.*\)\s+)?# (.*)$", re.MULTILINE)
CONF = {
    # a short program is not worth the compiler's time
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


@pytest.mark.verify
@pytest.mark.parametrize("page", ["start/spark.md", "guides/streaming.md"])
def test_a_guide_prints_what_it_says(page, tmp_path):
    given = " ".join(f"--conf {key}={value}" for key, value in CONF.items())
    own = {
        "JAVA_HOME": delta_spark.find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    jars = Path(delta_spark.find_jars()[0]).parent
    program = "\n".join(BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")))

    done = subprocess.run(
        # the jars that are there, and not those of a repository
        [sys.executable, "-c", program.replace("delta=True", f"delta={str(jars)!r}")],
        cwd=tmp_path,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == TOLD.findall(program)
