"""`read(where=…)` takes whatever Spark takes, and skips files by what SQL understands of it."""

import pytest

import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.errors import BadPredicateError

pytestmark = pytest.mark.req("R26")


@pytest.fixture
def orders(uri, tmp_path):
    """Four partitions of two files each, ids 0 to 7."""
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(8):
            table.append(rows(number, day=f"d{number % 4}"))
        yield table


FILTERS = [
    # the filter, and how many files may hold its rows as far as SQL understands it
    ("upper(day) = 'D1'", 8),
    ("day = 'd1' and upper(name) = 'N1'", 2),
    ("day = 'd1' and (id % 4 = 1 and id < 4)", 1),
    ("(day = 'd1' and name rlike '^n') and id + 1 > 2", 2),
    ("day = 'd1' or length(name) = 0", 8),
    ("not (day = 'd1' and length(name) = 2)", 8),
    ("id in (select 3)", 8),
    ("day = 'd2' and exists (select 1 where 1 = 1)", 2),
    ("case when id > 3 then true else false end and day = 'd1'", 2),
    ("id between 1 + 1 and 5", 8),
    ("coalesce(day, 'x') = 'd3' and id >= 4", 4),
    ("named_struct('a', id).a = 3", 8),
    ("array_contains(array(1L, 2L), id) and day <> 'd1'", 6),
    ("id::string = '3'", 8),
    ("day = 'd1'", 2),
]


@pytest.mark.parametrize(("where", "files"), FILTERS)
def test_rows_are_sparks_and_files_are_skipped(session, uri, orders, where, files):
    expected = sorted(
        row.id for row in deltasql.spark.read(session, uri, "orders").where(where).collect()
    )
    assert expected
    frame = deltasql.spark.read(session, uri, "orders", where=where)
    assert sorted(row.id for row in frame.collect()) == expected
    assert frame.count() == len(expected)
    assert deltasql.spark.explain(uri, "orders", where=where).files.num_rows == files
    source = session.read.format("deltasql").options(uri=uri, table="orders", skipWhere=where)
    assert sorted(row.id for row in source.load().where(where).collect()) == expected


def test_a_variable_of_the_session_may_be_named(session, uri, orders):
    session.sql("declare or replace variable wanted bigint = 3")
    frame = deltasql.spark.read(session, uri, "orders", where="id = wanted and day = 'd3'")
    assert [row.id for row in frame.collect()] == [3]


@pytest.mark.parametrize("where", ["id >", "nobody = 1", "id = 1 and nobody = 1", "id", ""])
def test_what_spark_does_not_take_is_an_error(session, uri, orders, where):
    with pytest.raises(BadPredicateError):
        deltasql.spark.read(session, uri, "orders", where=where)


def test_a_source_that_leaves_rows_out_by_itself_understands_all_or_nothing(session, uri, orders):
    source = session.read.format("deltasql").options(uri=uri, table="orders")
    with pytest.raises(Exception, match="DS207"):
        source.option("where", "upper(day) = 'D1'").load().collect()
