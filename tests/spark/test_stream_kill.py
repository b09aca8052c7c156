"""A stream from table to table killed at points and at random, and begun again: every row once."""

import random
import time

import pytest

import deltasql
import spark_stream
from builders import a_table, ids, rows
from deltasql.testing import check_invariants

pytestmark = [pytest.mark.req("R26"), pytest.mark.usefixtures("needs_spark")]
COMMITS = 3
BACKLOG = 12
KILLS = [pytest.param(10, marks=pytest.mark.verify), pytest.param(50, marks=pytest.mark.soak)]


class Writer:
    """Appends rows, a few at a time, also in commits of several files."""

    def __init__(self, catalog, chance):
        self.catalog = catalog
        self.chance = chance
        self.count = 0

    def write(self, commits):
        for _ in range(commits):
            with self.catalog.transaction() as tx:
                for _ in range(self.chance.randint(1, 3)):
                    tx.table("orders").append(rows(self.count, day=f"d{self.chance.randint(0, 3)}"))
                    self.count += 1


@pytest.fixture
def catalog(uri, tmp_path):
    with deltasql.connect(uri) as opened:
        for name in (spark_stream.SOURCE, spark_stream.SINK):
            a_table(opened, tmp_path, name)
        yield opened


def drain(uri, checkpoint):
    process = spark_stream.start(uri, checkpoint, "drain")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err


def expect_all_once(catalog, count):
    copies = catalog.table(spark_stream.SINK)
    assert ids(copies) == list(range(count))
    check_invariants(catalog, spark_stream.SINK)
    catalog.mirror.run_once()
    assert catalog.mirror.verify(spark_stream.SINK) == []


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before-sink-commit", marks=pytest.mark.soak),
        pytest.param("after-commit", marks=pytest.mark.verify),
    ],
)
def test_killed_at_a_point_of_a_commit(uri, catalog, tmp_path, point):
    """The process that commits dies; Spark takes the batch for failed, whether it is or not."""
    for number in range(COMMITS):
        catalog.table("orders").append(rows(number))
    checkpoint = tmp_path / "checkpoint"
    crash = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:2"}
    process = spark_stream.start(uri, checkpoint, "drain", **crash)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1, err
    assert catalog.table(spark_stream.SINK).version == (2 if point == "after-commit" else 1)
    drain(uri, checkpoint)
    expect_all_once(catalog, COMMITS)
    assert catalog.table(spark_stream.SINK).version == COMMITS


def run_until_killed(uri, checkpoint, writer, chance, most):
    copies = writer.catalog.table(spark_stream.SINK)
    wanted, deadline = copies.version + chance.randint(1, most), time.monotonic() + 120
    process = spark_stream.start(uri, checkpoint, "running")
    try:
        while copies.version < wanted:
            assert process.poll() is None, "the stream ended by itself"
            assert time.monotonic() < deadline, "the stream stands still"
            if writer.count < copies.version + BACKLOG:  # a batch is a file is a row
                writer.write(1)
            time.sleep(0.1)
        time.sleep(chance.random())
    finally:
        spark_stream.kill(process)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_random(uri, catalog, tmp_path, kills):
    chance = random.Random(kills)
    writer, checkpoint = Writer(catalog, chance), tmp_path / "checkpoint"
    writer.write(8)
    for _ in range(kills):
        run_until_killed(uri, checkpoint, writer, chance, most=1 if kills == 10 else 2)
        writer.write(chance.randint(0, 3))
    drain(uri, checkpoint)
    expect_all_once(catalog, writer.count)
