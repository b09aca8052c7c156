"""Filters of format("deltasql"): its options skip files, those that follow are Spark's."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import functions as fn

import deltasql
import deltasql.spark
from builders import a_table, rows

pytestmark = pytest.mark.req("R26")


@pytest.fixture
def orders(uri, tmp_path):
    """Eight files of two ids each, n and n + 100, in two partitions."""
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(8):
            table.append(rows(number, number + 100, day=f"d{number % 2}"))
        yield table


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


def test_both_options_together(session, uri, orders):
    lose_files(orders, "day = 'd1' and id < 2")
    frame = source(session, uri, where="day = 'd1'", skipWhere="id < 2", columns="id,day")
    assert ids(frame) == [1, 101]
    assert ids(frame.where(fn.col("id") < 2)) == [1]
    assert ids(frame) == [1, 101]


@pytest.mark.parametrize(
    "where",
    [
        "day = 'd1'",
        "id < 2 and upper(day) = 'D1'",
        "id in (0, 1, null)",
        "not id >= 2",
        "id % 4 = 0 or day = 'd1'",
    ],
)
def test_a_filter_that_follows_is_sparks(session, uri, orders, where):
    expected = ids(deltasql.spark.read(session, uri, "orders").where(where))
    assert 0 < len(expected) < 16
    assert ids(source(session, uri).where(where)) == expected
