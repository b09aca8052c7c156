"""count(*), min and max: from SQL where that is exact, else by Spark; always the same answer."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import deltasql
import deltasql.spark
from builders import a_table
from deltasql.errors import BadArgumentError, SchemaError
from deltasql.spark.counted_frame import CountedFrame

pytestmark = pytest.mark.req("R26")
ROWS = pa.table(
    {
        "id": pa.array([3, None, 7, 5], pa.int64()),
        "day": [dt.date(2024, 2, 28), dt.date(2024, 2, 29), None, dt.date(1999, 12, 31)],
        "price": pa.array([Decimal("1.50"), Decimal("2.25"), None, Decimal("-3.00")]).cast(
            pa.decimal128(10, 2)
        ),
        "name": ["b", "a", "d", "c"],
        "part": [1.5, float("nan"), 2.5, 0.5],
        "none": pa.array([None] * 4, pa.int32()),
        "p": ["x", "x", "y", None],
    }
)
FROM_SQL = ["count(*)", "min(id)", "MAX( day )", "max(price)", "min(none)", "max(p)", "count(1)"]


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


def by_spark(session, uri, expressions, **options):
    return tuple(deltasql.spark.read(session, uri, "t", **options).selectExpr(*expressions).first())


@pytest.mark.parametrize("where", [None, "p = 'x'", "p is null", "p in ('y', 'none')", "p = 'no'"])
def test_sql_answers_what_spark_would(session, uri, table, where):
    options = {} if where is None else {"where": where}
    expected = by_spark(session, uri, FROM_SQL, **options)
    lose_all_files(table)

    found = deltasql.spark.aggregate(session, uri, "t", *FROM_SQL, **options)

    assert tuple(found) == expected
    assert found["count(*)"] == expected[0]


@pytest.mark.parametrize(
    ("expression", "options"),
    [
        ("min(name)", {}),  # texts in statistics are cut
        ("max(part)", {}),  # NaN is the greatest number, and no statistics tell of it
        ("count(id)", {}),
        ("sum(id)", {}),
        ("max(id + 1)", {}),
        ("count(*)", {"where": "id > 3"}),
        ("min(id)", {"where": "p = 'x' and id > 3"}),
        ("count(*)", {"version": 1}),
    ],
)
def test_spark_answers_the_rest(session, uri, table, expression, options):
    expected = by_spark(session, uri, [expression], **options)

    assert str(tuple(deltasql.spark.aggregate(session, uri, "t", expression, **options))) == str(
        expected
    )


def test_deleted_rows_are_not_counted_and_bounds_are_looked_up(session, uri, table, needs_delta):
    table.alter(properties={"delta.enableDeletionVectors": "true"})
    deltasql.spark.sql(session, uri, "DELETE FROM t WHERE id = 7")
    assert deltasql.spark.aggregate(session, uri, "t", "max(id)")[0] == 5
    lose_all_files(table)

    assert deltasql.spark.aggregate(session, uri, "t", "count(*)")[0] == 4


def test_a_table_that_is_read_knows_its_count(session, uri, table):
    frame = deltasql.spark.read(session, uri, "t", where="p = 'x'", columns=["id"])
    assert isinstance(frame, CountedFrame)
    assert frame.count() == len(frame.collect()) == 3
    assert frame.where("id = 3").count() == frame.where("id = 3").toArrow().num_rows == 1
    lose_all_files(table)

    assert frame.count() == 3


def test_a_filter_on_other_columns_is_counted_by_spark(session, uri, table):
    assert deltasql.spark.read(session, uri, "t", where="id >= 5").count() == 3


def test_what_is_not_there_is_told(session, uri, table):
    with pytest.raises(SchemaError, match="no column gone"):
        deltasql.spark.aggregate(session, uri, "t", "min(gone)")
    with pytest.raises(BadArgumentError, match="No aggregate"):
        deltasql.spark.aggregate(session, uri, "t")
    with pytest.raises(BadArgumentError, match="no option colour"):
        deltasql.spark.aggregate(session, uri, "t", "count(*)", colour="red")
