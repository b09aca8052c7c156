"""spark.write when things go wrong: nothing is committed, or exactly what was written is."""

import os
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

import deltasql
from builders import SCHEMA, a_table, ids, paths, rows
from deltasql.errors import (
    CommitConflictError,
    CorruptDataError,
    SparkJobError,
    TableExistsError,
    TableNotFoundError,
)
from deltasql.spark import write
from deltasql.testing import check_invariants
from deltasql.testing.crash_points import hooked

ROWS = 100


@pytest.fixture
def table(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        yield a_table(catalog, tmp_path, partition_by=[])


@pytest.fixture
def frame(spark):
    return spark.spark.range(ROWS, numPartitions=2).selectExpr("id")


def save(frame, uri, table="orders", **options):
    """Write by Spark's own writer, however few the rows are."""
    return write(frame, uri, table, max_records_per_file=1000, **options)


def folder(table) -> Path:
    return Path(unquote(table.location.removeprefix("file://")))


def left_by_spark(table) -> list[Path]:
    return sorted(folder(table).glob("w-*/*.parquet"))


def at(point, act):
    def hook(name):
        if name == point:
            act()

    return hooked(hook)


class Stop(Exception):  # noqa: N818 (a fault, not an error of ours)
    """What a test throws in the middle of a write."""


def stop():
    raise Stop


def test_a_task_that_fails(frame, uri, table):
    broken = frame.selectExpr("if(id = 77, raise_error('no such row'), id) as id")
    with pytest.raises(SparkJobError) as caught:
        save(broken, uri)
    assert "no such row" in caught.value.message
    assert "\n" not in str(caught.value)
    assert (caught.value.code, bool(caught.value.advice)) == ("DS700", True)
    assert table.version == 0
    assert list(folder(table).glob("w-*")) == []


def test_a_python_task_that_fails(spark, uri, table):
    def fail(number):
        raise ValueError(f"cannot take {number}")

    broken = spark.spark.createDataFrame(spark.context.parallelize([7], 1).map(fail), "id long")
    for options in ({}, {"max_records_per_file": 10}):
        with pytest.raises(SparkJobError, match="ValueError: cannot take 7") as caught:
            write(broken, uri, "orders", **options)
        assert "Traceback" not in str(caught.value)
    assert table.version == 0


def test_a_file_that_got_lost_is_noticed(frame, uri, table):
    def lose():
        left_by_spark(table)[0].unlink()

    with at("after-spark-job", lose), pytest.raises(CorruptDataError, match=r"100 rows.* 50"):
        save(frame, uri)
    assert table.version == 0
    assert left_by_spark(table) == []


def test_a_file_that_came_twice_is_noticed(frame, uri, table):
    def double():
        first = left_by_spark(table)[0]
        shutil.copy(first, first.with_name(f"part-again-{first.name}"))

    with at("after-spark-job", double), pytest.raises(CorruptDataError, match=r"100 rows.* 150"):
        save(frame, uri)
    assert table.version == 0


def test_a_file_that_is_cut_off_is_noticed(frame, uri, table):
    def cut():
        first = left_by_spark(table)[0]
        first.write_bytes(first.read_bytes()[:-20])

    with at("after-spark-job", cut), pytest.raises(CorruptDataError, match="footer"):
        save(frame, uri)
    assert table.version == 0


@pytest.mark.parametrize("point", ["after-spark-job", "after-spark-files", "before-spark-commit"])
def test_stopped_before_the_commit(frame, uri, table, point):
    with at(point, stop), pytest.raises(Stop):
        save(frame, uri, commit_id="token")
    assert table.version == 0
    # after the files are told of, vacuum takes them, nobody else
    assert bool(left_by_spark(table)) == (point != "after-spark-job")
    assert save(frame, uri, commit_id="token") == 1
    assert ids(table) == list(range(ROWS))


def test_stopped_after_the_commit(frame, uri, table):
    with at("after-spark-commit", stop), pytest.raises(Stop):
        save(frame, uri, commit_id="token")
    assert save(frame, uri, commit_id="token") == 1
    assert ids(table) == list(range(ROWS))
    assert len(left_by_spark(table)) == 2
    with deltasql.connect(uri) as catalog:
        check_invariants(catalog, "orders")


def test_an_append_meanwhile_disturbs_no_append(frame, uri, table):
    with at("after-spark-files", lambda: table.append(rows(1000))):
        assert save(frame, uri) == 2
    assert ids(table) == [*range(ROWS), 1000]


def test_an_append_meanwhile_disturbs_an_overwrite(frame, uri, table):
    with (
        at("after-spark-files", lambda: table.append(rows(1000))),
        pytest.raises(CommitConflictError),
    ):
        save(frame, uri, mode="overwrite")
    assert ids(table) == [1000]
    assert len(left_by_spark(table)) == 2


def test_a_table_in_another_store(frame, uri, tmp_path):
    """Spark has no jar for it: the files pass through this machine's disk."""
    place = f"memory://bucket/{tmp_path.name}"
    assert save(frame, uri, mode="error", table="far", location=place) == 0
    with deltasql.connect(uri) as catalog:
        table = catalog.table("far")
        assert ids(table) == list(range(ROWS))
        assert all(path.startswith("w-") for path in paths(table))
        assert catalog.mirror.verify("far") == []


def test_vacuum_knows_what_is_left(frame, uri, table):
    save(frame, uri)
    kept = left_by_spark(table)
    with at("before-spark-commit", stop), pytest.raises(Stop):
        save(frame, uri)
    orphans = [file for file in left_by_spark(table) if file not in kept]
    long_ago = kept[0].stat().st_mtime - 30 * 24 * 3600
    for file in left_by_spark(table):
        os.utime(file, (long_ago, long_ago))
    report = table.vacuum(dry_run=False)
    assert {file.name for file in orphans} == {Path(one.key).name for one in report.objects}
    assert left_by_spark(table) == kept
    assert ids(table) == list(range(ROWS))


@pytest.mark.parametrize(
    "point", ["after-spark-job", "after-spark-files", "before-spark-commit", "before-begin"]
)
def test_a_new_table_stopped_before_its_commit_is_not_there(frame, uri, tmp_path, point):
    place = {"location": str(tmp_path / "fresh"), "commit_id": "token"}
    with at(point, stop), pytest.raises(Stop):
        save(frame, uri, "fresh", mode="error", **place)
    with deltasql.connect(uri) as catalog, pytest.raises(TableNotFoundError):
        catalog.table("fresh")
    assert save(frame, uri, "fresh", mode="error", **place) == 0
    with deltasql.connect(uri) as catalog:
        assert ids(catalog.table("fresh")) == list(range(ROWS))


def test_a_new_table_whose_reply_was_lost(frame, uri, tmp_path):
    place = {"location": str(tmp_path / "fresh")}
    with at("after-commit", stop), pytest.raises(Stop):
        save(frame, uri, "fresh", mode="error", commit_id="token", **place)
    assert save(frame, uri, "fresh", mode="error", commit_id="token", **place) == 0
    with pytest.raises(TableExistsError):
        save(frame, uri, "fresh", mode="error", commit_id="another", **place)
    with deltasql.connect(uri) as catalog:
        made = catalog.table("fresh")
        assert (made.version, ids(made)) == (0, list(range(ROWS)))
        assert [one.operation for one in made.history()] == ["WRITE"]
        check_invariants(catalog, "fresh")
        catalog.mirror.run_once()
        assert catalog.mirror.verify("fresh") == []


def test_a_name_or_a_place_taken_meanwhile(frame, uri, tmp_path):
    """Whoever commits first has the table; the other one's rows are not mixed into it."""
    one, other = str(tmp_path / "one"), str(tmp_path / "other")

    def create(name, place):
        with deltasql.connect(uri) as catalog:
            catalog.create_table(name, location=place, schema=SCHEMA)

    for name, place in (("fresh", other), ("elsewhere", one)):
        with (
            at("after-spark-files", lambda name=name, place=place: create(name, place)),
            pytest.raises(TableExistsError),
        ):
            save(frame, uri, "fresh", location=one)
        with deltasql.connect(uri) as catalog:
            assert catalog.table(name).version == 0
            assert ids(catalog.table(name)) == []
            catalog.drop(name, purge=True)


def test_rows_that_do_not_fit_make_no_table(session, uri, tmp_path):
    broken = session.range(9).selectExpr("if(id = 7, raise_error('no'), id) as id")
    with pytest.raises(SparkJobError):
        save(broken, uri, "fresh", location=str(tmp_path / "fresh"))
    with deltasql.connect(uri) as catalog:
        assert [info.name for info in catalog.tables()] == []
