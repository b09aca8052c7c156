"""Filters that reach format("deltasql"): by its options, and pushed by Spark."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import functions as fn

import deltasql
import deltasql.spark
from builders import a_table, rows

PUSHES = "spark.sql.python.filterPushdown.enabled"
pytestmark = pytest.mark.req("R26")


@pytest.fixture
def orders(uri, tmp_path):
    """Eight files of two ids each, n and n + 100, in two partitions."""
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(8):
            table.append(rows(number, number + 100, day=f"d{number % 2}"))
        yield table


@pytest.fixture
def pushing(session):
    session.conf.set(PUSHES, "true")
    yield session
    session.conf.unset(PUSHES)


def source(session, uri, **options):
    return session.read.format("deltasql").options(uri=uri, table="orders", **options).load()


def ids(frame):
    return sorted(row.id for row in frame.collect())


def lose_files(table, where):
    """Delete the files that the filter cannot need; to read one of them is an error."""
    needed = set(table.snapshot().files(["path"], where=where)["path"].to_pylist())
    others = set(table.snapshot().files(["path"])["path"].to_pylist()) - needed
    assert needed
    assert others
    for path in others:
        (Path(urlsplit(table.location).path) / path).unlink()


def test_the_option_where_leaves_rows_out(session, uri, orders):
    assert ids(source(session, uri, where="id < 2 and day = 'd1'")) == [1]


def test_the_option_skip_where_leaves_files_out_only(session, uri, orders):
    lose_files(orders, "id < 2 and day = 'd1'")
    assert ids(source(session, uri, skipWhere="id < 2 and day = 'd1'")) == [1, 101]


@pytest.mark.parametrize(
    ("where", "skipped"),
    [
        ("day = 'd1'", "day = 'd1'"),
        ("id < 2 and upper(day) = 'D1'", "id < 2"),
        ("id in (0, 1, null)", "id in (0, 1, null)"),
        ("not id >= 2", "id < 2"),
    ],
)
def test_a_filter_of_spark_skips_files_in_sql(pushing, uri, orders, where, skipped):
    expected = ids(deltasql.spark.read(pushing, uri, "orders").where(where))
    lose_files(orders, skipped)

    assert ids(source(pushing, uri).where(where)) == expected


def test_it_counts_with_the_options_too(pushing, uri, orders):
    lose_files(orders, "day = 'd1' and id < 2")
    frame = source(pushing, uri, where="day = 'd1'", columns="id,day")
    assert ids(frame.where(fn.col("id") < 2)) == [1]


def test_a_filter_that_says_nothing_to_sql_reads_everything(pushing, uri, orders):
    assert len(ids(source(pushing, uri).where("id % 4 = 0 or day = 'd1'"))) == 12


def test_without_pushing_the_filter_is_sparks_alone(session, uri, orders):
    assert session.conf.get(PUSHES) == "false"
    assert ids(source(session, uri).where("id = 0")) == [0]
