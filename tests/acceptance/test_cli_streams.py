"""The program's output: any name in any locale, streams that are closed or full, far times."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

import deltasql

NAME = "日本"
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
FAR = {"t": [2**60, 0, None], "d": [10**7, 0, None], "s": [[-(2**61)], [0], []]}


@pytest.fixture
def far(tmp_path):
    """A table with a name and with times that not every system can show."""
    kind = pa.timestamp("us", tz="UTC")
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "t": pa.array(FAR["t"], kind),
        "d": pa.array(FAR["d"], pa.date32()),
        "s": pa.array(FAR["s"], pa.list_(kind)),
    }
    rows = pa.table(columns)
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        catalog.create_table(NAME, location=str(tmp_path / "t"), schema=rows.schema).append(rows)


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, ASCII], ids=["C", "ASCII"])
def test_any_name_is_printed_in_any_locale(run, far, locale):
    assert "1" in run("tables", **locale).stdout
    assert json.loads(run("tables", "-o", "json", **locale).stdout)[0]["name"] == NAME
    assert json.loads(run("show", NAME, "-o", "json", **locale).stdout)["name"] == NAME
    assert "DS301" in run("show", f"{NAME}x", code=1, **locale).stderr


def direct(tmp_path, *arguments, **streams):
    env = {**os.environ, "DELTASQL_URI": f"deltasql://sqlite/{tmp_path}/c.db"}
    command = [sys.executable, "-m", "deltasql", *arguments]
    return subprocess.run(command, env=env, check=False, timeout=120, **streams)


@pytest.mark.parametrize("arguments", [("tables",), ("tables", "-o", "json"), ("--help",)], ids=str)
def test_a_full_disk_behind_the_output_is_told(tmp_path, far, arguments):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 (a device)
        done = direct(tmp_path, *arguments, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"DS105" in done.stderr
    assert b"No space left" in done.stderr


def test_a_closed_output_is_no_failure(tmp_path, far):
    closed = f"{sys.executable} -m deltasql tables >&-"
    env = {**os.environ, "DELTASQL_URI": f"deltasql://sqlite/{tmp_path}/c.db"}
    done = subprocess.run(closed, shell=True, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_times_outside_of_the_calendar_are_shown_as_numbers(run, far):
    rows = json.loads(run("sample", NAME, "-o", "json").stdout)
    assert rows[0]["t"] == f"{2**60} us since 1970"
    assert rows[0]["d"] == f"{10**7} days since 1970"
    assert rows[0]["s"] == [f"{-(2**61)} us since 1970"]
    assert (rows[1]["t"], rows[1]["d"], rows[2]["t"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01",
        None,
    )
    assert "since 1970" in run("sample", NAME).stdout
