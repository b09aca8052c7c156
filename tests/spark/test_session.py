"""Sessions that deltasql starts, and their settings."""

import json
import subprocess
import sys

import pytest

import deltasql.spark
from deltasql.errors import BadArgumentError

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
def test_a_session_of_its_own_has_the_options_of_the_user_and_of_deltasql():
    done = subprocess.run(
        [sys.executable, "-c", STARTED, "-Dmine=1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.partition("@@")[2])

    assert "-Dmine=1" in told["java"]
    assert told["pushes"] == "false"
    assert told["rows"] == [[0], [1], [2]]
