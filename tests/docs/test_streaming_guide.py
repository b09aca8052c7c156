"""The guide to streams is one program that prints what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import delta_spark

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOLD = re.compile(r"^(?:print\(.*\)\s+)?# (.*)$", re.MULTILINE)
CONF = "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"


@pytest.mark.verify
def test_the_guide_prints_what_it_says(tmp_path):
    own = {
        "JAVA_HOME": delta_spark.find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] {CONF} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    page = ROOT / "docs/guides/streaming.md"
    program = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
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
    assert done.stdout.splitlines() == TOLD.findall(program)
