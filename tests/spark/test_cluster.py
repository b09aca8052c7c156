"""A cluster of two workers: write, read and merge, one executor killed in the middle of a write."""

import os
import signal

import pyarrow as pa
import pytest

import cluster_driver
import deltasql
from builders import ids
from cluster_driver import ROWS
from deltasql.testing import check_invariants
from processes import finish, is_running, until
from readers import require
from server_process import Unavailable
from spark_cluster import cluster

pytestmark = [
    pytest.mark.verify,
    pytest.mark.req("R26", "R71"),
    pytest.mark.usefixtures("needs_jars"),
]


@pytest.fixture(scope="module")
def master():
    try:
        running = cluster()
        url = running.__enter__()
    except Unavailable as reason:
        require("spark", str(reason))
    yield url
    running.__exit__(None, None, None)


def test_an_executor_killed_in_the_middle_of_a_write(master, tmp_path):
    uri, marks = f"deltasql://sqlite/{tmp_path}/c.db", tmp_path / "marks"
    marks.mkdir()
    with deltasql.connect(uri) as catalog:
        table = catalog.create_table(
            "t", location=str(tmp_path / "t"), schema=pa.schema([("id", pa.int64())])
        )
    driver = cluster_driver.start(master, uri, marks)
    until(lambda: any(mark.read_text() for mark in marks.iterdir()) or driver.poll() is not None)
    assert driver.poll() is None, driver.communicate()[1]
    executor = int(next(text for mark in marks.iterdir() if (text := mark.read_text())))
    os.kill(executor, signal.SIGKILL)
    until(lambda: not is_running(executor))
    assert finish(driver) == {"version": 1, "read": [ROWS, ROWS * (ROWS - 1) // 2]}
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        catalog.mirror.run_once()
        expected = [*range(ROWS - 5), *range(ROWS, ROWS + 5)]
        assert ids(table) == expected
        assert [entry.operation for entry in table.history()[:2]] == ["MERGE", "WRITE"]
        check_invariants(catalog, "t")
    assert len(list(marks.iterdir())) > 4
