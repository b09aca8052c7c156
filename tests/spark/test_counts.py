"""The count of a DataFrame that `read` made: from SQL where that is exact, else by Spark."""

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import deltasql
import deltasql.spark
from builders import a_table
from deltasql.spark.read.dataframe import CountedFrame

pytestmark = pytest.mark.req("R26")
ROWS = pa.table({"id": pa.array([3, None, 7, 5], pa.int64()), "p": ["x", "x", "y", None]})


@pytest.fixture
def table(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        made = a_table(catalog, tmp_path, "t", schema=ROWS.schema, partition_by=["p"])
        made.append(ROWS)
        made.append(ROWS.slice(1, 2))
        yield made


def lose_all_files(table):
    """From now on only SQL can tell."""
    for file in Path(urlsplit(table.location).path).rglob("*.parquet"):
        file.unlink()


@pytest.mark.parametrize("where", [None, "p = 'x'", "p is null", "p in ('y', 'none')", "p = 'no'"])
def test_sql_counts_what_spark_would(session, uri, table, where):
    frame = deltasql.spark.read(session, uri, "t", where=where)
    expected = len(frame.collect())
    lose_all_files(table)

    assert frame.count() == expected


def test_deleted_rows_are_not_counted(session, uri, table, needs_delta):
    table.alter(properties={"delta.enableDeletionVectors": "true"})
    deltasql.spark.sql(session, uri, "DELETE FROM t WHERE id = 7")
    frame = deltasql.spark.read(session, uri, "t")
    assert isinstance(frame, CountedFrame)

    assert frame.count() == len(frame.collect()) == 4


def test_a_table_that_is_read_knows_its_count(session, uri, table):
    frame = deltasql.spark.read(session, uri, "t", where="p = 'x'", columns=["id"])
    assert isinstance(frame, CountedFrame)
    assert frame.count() == len(frame.collect()) == 3
    assert frame.where("id = 3").count() == frame.where("id = 3").toArrow().num_rows == 1
    lose_all_files(table)

    assert frame.count() == 3


@pytest.mark.parametrize("where", ["id >= 5", "p = 'x' and id >= 3"])
def test_a_filter_on_other_columns_is_counted_by_spark(session, uri, table, where):
    frame = deltasql.spark.read(session, uri, "t", where=where)
    assert not isinstance(frame, CountedFrame)
    assert frame.count() == len(frame.collect()) > 0
