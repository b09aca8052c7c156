"""The demo as users meet it: a process with exit code, stdout and stderr."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import delta_spark

DEMO = Path(__file__).parents[2] / "examples/demo"
# "reader      rows         sum  verdict"
READER, ROWS, SUM, VERDICT = slice(0, 9), slice(9, 16), slice(16, 28), slice(30, None)


def demo(place, *arguments, code=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DELTASQL_", "PG"))}
    done = subprocess.run(
        [sys.executable, DEMO, *arguments],
        cwd=place,
        env=env | {"HOME": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.req("R26")
@pytest.mark.verify
def test_the_demo_ends_with_equal_readers(tmp_path):
    found = delta_spark.jars()
    jars = ["--jars", str(Path(found[0]).parent)] if found else []
    lines = demo(tmp_path, *jars).stdout.splitlines()
    steps = [line for line in lines if line[:2].strip(".").isdigit()]
    assert [step.split(".")[0] for step in steps] == [str(n) for n in range(1, 8)]
    assert "at every version: equal" in steps[1]
    assert "verify finds 2 faults" in steps[4]
    assert "verify finds 0 faults" in steps[5]

    rows = lines[lines.index("reader      rows         sum  verdict") + 1 :][:5]
    names = ["deltasql", "deltalake", "polars", "duckdb", "spark"]
    assert [row[READER].strip() for row in rows] == names
    assert {row[ROWS].strip() for row in rows} - {""} == {"11000"}
    assert len({row[SUM].strip() for row in rows} - {""}) == 1
    required = os.environ.get("DELTASQL_REQUIRE_SERVERS", "").split()
    for name, row in zip(names[1:], rows[1:], strict=True):
        is_missing = row.endswith((" not installed.", " is not there."))
        assert row[VERDICT] == "equal" or (is_missing and name not in required), row
    demo(tmp_path)


def test_the_demo_empties_no_folder_of_others(tmp_path):
    (tmp_path / ".demo").mkdir()
    (tmp_path / ".demo/precious").touch()
    assert "not empty" in demo(tmp_path, code=2).stderr
    assert (tmp_path / ".demo/precious").exists()
