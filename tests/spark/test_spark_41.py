"""The older Spark that is supported: the same tests, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from readers import require

ROOT = Path(__file__).parents[2]
SPARK = Path(os.environ.get("DELTASQL_TEST_SPARK41") or ROOT / ".tools/spark41")
TESTS = [
    "test_read.py::test_rows_and_schema_are_those_of_delta_spark",
    "test_read.py::test_a_filter_skips_files_in_sql_and_is_applied",
    "test_one_load_many_queries.py",
    "test_write.py::test_append_by_the_driver_and_by_spark",
    "test_transactions.py::test_two_tables_in_one_commit",
    "test_transaction_names.py",
    "test_lost_updates.py::test_every_way_to_read_counts",
    "test_session_overwrite_mode.py::test_no_rows_replace_no_partition",
    "test_batch_sink.py::test_append_and_overwrite",
    "test_stream_source.py::test_a_query_stops_with_our_code_and_goes_on_after_a_restart",
    "test_streaming_sink.py::test_every_batch_once",
]
WHOLE = ["test_read.py", "test_one_load_many_queries.py", "test_write.py", *TESTS[-4:]]
# what PySpark 4.1 leaves open is its own affair
LOOSE = "ignore::pytest.PytestUnraisableExceptionWarning"


@pytest.mark.verify
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "names",
    [pytest.param(TESTS, id="some"), pytest.param(WHOLE, marks=pytest.mark.soak, id="whole files")],
)
def test_reads_writes_and_transactions_on_spark_41(names):
    python, jars = SPARK / "python", SPARK / "jars"
    if not (python / "pyspark").is_dir() or not list(jars.glob("delta-spark_4.1*.jar")):
        require("delta_spark", "Spark 4.1 is not installed (make servers)")
    path = os.pathsep.join(filter(None, [str(python), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "DELTASQL_TEST_JARS": str(jars)}
    files = [str(ROOT / "tests/spark" / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", LOOSE]
    asked = "import pyspark; print(pyspark.__version__)"
    told = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("4.1.")

    done = subprocess.run(
        [*command, "-m", "not verify and not soak", *files],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
