"""The same numbered write from several threads is one write, and a no-op for the others."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import deltasql
import deltasql.spark
from builders import a_table, rows
from readers import read_deltasql
from spark_frames import a_frame

pytestmark = pytest.mark.req("R26")
TXN = {"txn_app_id": "job", "txn_version": 3}


@pytest.fixture
def together(monkeypatch):
    """Let all writes plan before any of them commits."""
    ready = threading.Barrier(3)
    stage = deltasql.spark.write.__globals__["FrameWrite"].stage

    def staged_together(self, staged):
        stage(self, staged)
        ready.wait(120)

    kind = deltasql.spark.write.__globals__["FrameWrite"]
    monkeypatch.setattr(kind, "stage", staged_together)


def ids(table):
    return sorted(row["id"] for row in read_deltasql(table))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_threads_that_write_the_same(session, small, together, mode):
    frame = a_frame(session, 1, 2)
    with ThreadPoolExecutor(3) as pool:
        done = [
            pool.submit(deltasql.spark.write, frame, small.uri, "orders", mode=mode, **TXN)
            for _ in range(3)
        ]
        assert [one.result() for one in done] == [1, 1, 1]
    assert ids(small.table) == [1, 2]
    assert deltasql.spark.write(frame, small.uri, "orders", mode=mode, **TXN) == 1


def test_threads_that_make_the_same_table(session, small, together, tmp_path):
    frame, place = a_frame(session, 1, 2), str(tmp_path / "made")
    with ThreadPoolExecutor(3) as pool:
        done = [
            pool.submit(deltasql.spark.write, frame, small.uri, "made", location=place, **TXN)
            for _ in range(3)
        ]
        assert [one.result() for one in done] == [0, 0, 0]
    assert ids(small.catalog.table("made")) == [1, 2]


@pytest.mark.usefixtures("needs_delta")
def test_a_transaction_where_one_table_has_it(session, small, tmp_path):
    a_table(small.catalog, tmp_path, "totals").append(rows(9))
    deltasql.spark.write(a_frame(session, 1), small.uri, "orders", **TXN)
    for _ in range(2):
        with deltasql.spark.transaction(session, small.uri, txn=("job", 3)) as tx:
            tx.sql("insert into orders values (1, 'n1', 'a')")
            tx.sql("insert into totals values (1, 'n1', 'a')")
        assert dict(tx.versions) == {"orders": 1, "totals": 2}
    assert ids(small.table) == [1]
    assert ids(small.catalog.table("totals")) == [1, 9]
