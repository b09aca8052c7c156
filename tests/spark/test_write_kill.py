"""A process killed in the middle of spark.write: all or nothing, and a repeat is harmless."""

import signal

import pytest

import deltasql
import spark_writer
from builders import a_table, ids
from deltasql.spark import write
from deltasql.testing import check_invariants

ROWS = 10_000
BEFORE = ["after-spark-job", "after-spark-files", "before-spark-commit"]
AFTER = ["after-commit", "after-spark-commit"]
CASES = [
    *(("sqlite", point) for point in (*BEFORE, *AFTER)),
    ("postgres", "after-commit"),
]


@pytest.mark.verify
@pytest.mark.parametrize(("catalog_uri", "point"), CASES, indirect=["catalog_uri"])
def test_killed_at_a_point(spark, catalog_uri, tmp_path, point):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, partition_by=[])
    crash = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": point}
    process = spark_writer.start(catalog_uri, ROWS, **crash)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        assert table.version == (1 if point in AFTER else 0)
        frame = spark.spark.range(ROWS, numPartitions=2).where("id >= 0")
        assert write(frame, catalog_uri, "orders", commit_id=spark_writer.TOKEN) == 1
        assert ids(table) == list(range(ROWS))
        check_invariants(catalog, "orders")
        catalog.mirror.run_once()
        assert catalog.mirror.verify("orders") == []
