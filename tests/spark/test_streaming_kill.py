"""A stream killed in the middle, at points and at random, and begun again: every row once."""

import random
import time

import pytest

import deltasql
import spark_stream
from builders import a_table, ids
from deltasql.testing import check_invariants

FILES, PER_FILE = 6, 5
# How long the batches of the stream take, from the first to the last.
SECONDS = 6.0


@pytest.fixture
def arriving(tmp_path):
    place = tmp_path / "arriving"
    place.mkdir()
    for number in range(FILES):
        lines = [f'{{"id": {number * PER_FILE + row}}}' for row in range(PER_FILE)]
        (place / f"{number}.json").write_text("\n".join(lines))
    return place


def expect_all_once(uri):
    with deltasql.connect(uri) as catalog:
        table = catalog.table("orders")
        assert ids(table) == list(range(FILES * PER_FILE))
        assert table.version == FILES
        check_invariants(catalog, "orders")
        catalog.mirror.run_once()
        assert catalog.mirror.verify("orders") == []


def finish(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err


@pytest.mark.verify
@pytest.mark.parametrize("point", ["before-sink-commit", "after-commit"])
def test_killed_at_a_point_of_a_commit(spark, uri, arriving, tmp_path, point):
    """The process that commits dies; Spark takes the batch for failed, whether it is or not."""
    with deltasql.connect(uri) as catalog:
        a_table(catalog, tmp_path, partition_by=[])
    place = (uri, arriving, tmp_path / "checkpoint")
    crash = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:3"}
    process = spark_stream.start(*place, **crash)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1, err
    with deltasql.connect(uri) as catalog:
        assert catalog.table("orders").version == (3 if point == "after-commit" else 2)
    finish(spark_stream.start(*place))
    expect_all_once(uri)


def kill_at_random(uri, arriving, tmp_path, times):
    with deltasql.connect(uri) as catalog:
        a_table(catalog, tmp_path, partition_by=[])
    chance = random.Random(f"streams {times}")
    place = (uri, arriving, tmp_path / "checkpoint")
    for _ in range(times):
        process = spark_stream.start(*place)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.5, SECONDS))
        finally:
            spark_stream.kill(process)
    finish(spark_stream.start(*place))
    expect_all_once(uri)


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_killed_at_random(spark, uri, arriving, tmp_path):
    kill_at_random(uri, arriving, tmp_path, 3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_random_many_times(spark, uri, arriving, tmp_path):
    kill_at_random(uri, arriving, tmp_path, 50)
