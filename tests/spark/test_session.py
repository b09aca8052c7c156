"""Sessions that deltasql starts: their settings, and the archive that they start from."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql.spark
from deltasql.errors import BadArgumentError
from deltasql.jobs.class_archive import archive_path
from deltasql.jobs.java import find_java

STARTED = """
import json, sys
import deltasql.spark

spark = deltasql.spark.session("local[1]", conf={"spark.driver.extraJavaOptions": sys.argv[1]})
runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
pushes = spark.conf.get("spark.sql.python.filterPushdown.enabled")
rows = [tuple(row) for row in spark.range(3).collect()]
told = {"java": list(runtime.getInputArguments()), "pushes": pushes, "rows": rows}
print("@@" + json.dumps(told))
"""


def test_the_session_that_is_there_is_used(session):
    assert deltasql.spark.session().sparkContext is session.sparkContext


def test_another_master_is_refused(session):
    with pytest.raises(BadArgumentError, match="is active in this process"):
        deltasql.spark.session("local[7]")


def test_delta_is_found_in_the_session_that_is_there(session, needs_delta):
    assert deltasql.spark.session(delta=True).sparkContext is session.sparkContext


@pytest.mark.verify
@pytest.mark.parametrize("anew", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_prepared_session_starts_from_the_archive(tmp_path, anew):
    """From the one that `make verify` has prepared, if there is one; in the soak from a new one."""
    archive, env = archive_path(find_java(os.environ), os.environ), dict(os.environ)
    if anew or not archive.is_file():
        env["XDG_CACHE_HOME"] = str(tmp_path)
        made = _run(["-m", "deltasql", "spark", "prepare", "-o", "json"], env)
        archive = Path(json.loads(made)["archive"])
        assert archive.is_relative_to(tmp_path)

    # with this option Java does not start if the archive does not fit
    told = json.loads(_run(["-c", STARTED, "-Xshare:on"], env).partition("@@")[2])

    assert f"-XX:SharedArchiveFile={archive}" in told["java"]
    assert told["pushes"] == "false"
    assert told["rows"] == [[0], [1], [2]]


def _run(arguments, env):
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
