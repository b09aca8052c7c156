"""One `load()` answers any number of queries: no query changes what a later one sees."""

import pytest
from pyspark.sql.datasource import DataSourceReader

import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.spark.source.batch_reader import TableReader
from streams import Sink, ids, ours

pytestmark = pytest.mark.req("R26")
# Spark 4.1 and 4.2 keep a filter that they push to a Python source for all queries of one load().
PUSHES = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(
    params=[
        pytest.param("true", id="pushing"),
        pytest.param("false", id="as it is", marks=pytest.mark.verify),
    ]
)
def session(spark, request):
    """A session of the user's own, which may push filters to Python sources."""
    spark.spark.conf.set(PUSHES, request.param)
    yield spark.spark
    spark.spark.conf.unset(PUSHES)


@pytest.fixture
def orders(uri, tmp_path):
    """Four hundred rows in four partitions, a file each."""
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(4):
            table.append(rows(*range(number * 100, number * 100 + 100), day=f"d{number}"))
        yield table


@pytest.fixture
def frame(session, uri, orders):
    return session.read.format("deltasql").options(uri=uri, table="orders").load()


def test_a_filtered_query_and_then_the_whole(frame):
    assert frame.count() == 400
    assert frame.where("day = 'd1'").count() == 100
    assert frame.count() == 400
    assert frame.where("id >= 350").count() == 50
    assert frame.where("day = 'd1'").count() == 100
    assert len(frame.collect()) == 400


def test_a_union_of_two_filters(frame):
    low, high = frame.where("day = 'd0'"), frame.where("day = 'd3'")
    assert low.union(high).count() == 200
    assert low.unionByName(frame).union(high).count() == 600
    assert low.intersect(high).count() == 0
    assert frame.exceptAll(low).count() == 300


def test_a_join_with_itself(frame):
    left = frame.where("day = 'd1'").alias("l")
    right = frame.where("id < 150").alias("r")
    assert left.join(right, "id").count() == 50
    assert left.join(frame.alias("r"), "id").count() == 100
    assert frame.join(left, "id", "left_anti").count() == 300


def test_views(session, frame):
    frame.createOrReplaceTempView("loaded_once")
    try:
        assert session.sql("select * from loaded_once where day = 'd2'").count() == 100
        assert session.sql("select * from loaded_once").count() == 400
        both = (
            "select * from loaded_once where day = 'd2' union all "
            "select * from loaded_once where day = 'd3'"
        )
        assert session.sql(both).count() == 200
        subquery = (
            "select * from loaded_once where id = (select max(id) from loaded_once "
            "where day = 'd1') or day = 'd0'"
        )
        assert session.sql(subquery).count() == 101
        with_common = (
            "with c as (select day, count(*) n from loaded_once group by day) "
            "select a.n + b.n from c a, c b where a.day = 'd0' and b.day = 'd3'"
        )
        assert [row[0] for row in session.sql(with_common).collect()] == [200]
    finally:
        session.catalog.dropTempView("loaded_once")


def test_caches(frame):
    kept = frame.where("day = 'd1'").cache()
    try:
        assert kept.count() == 100
        assert frame.count() == 400
        assert kept.union(frame.where("day = 'd2'")).count() == 200
    finally:
        kept.unpersist()
    assert frame.cache().where("day = 'd2'").count() == 100
    frame.unpersist()
    assert frame.count() == 400


def test_filters_beside_the_option_where(session, uri, orders):
    source = session.read.format("deltasql").options(uri=uri, table="orders", where="id >= 150")
    frame = source.load()
    assert frame.where("day = 'd1'").count() == 50
    assert frame.count() == 250
    assert frame.where("day = 'd0'").count() == 0
    assert frame.where("day = 'd2'").union(frame.where("day = 'd3'")).count() == 200


def test_a_later_commit(session, uri, orders, frame):
    """Like a frame of Delta's, one that was loaded before may see it; it never loses rows."""
    assert frame.where("day = 'd1'").count() == 100
    orders.append(rows(400, day="d1"))
    assert frame.where("day = 'd0'").count() == 100
    assert frame.where("day = 'd1'").count() in {100, 101}
    anew = session.read.format("deltasql").options(uri=uri, table="orders").load()
    assert anew.where("day = 'd1'").count() == 101
    assert anew.count() == 401


def test_the_change_feed(session, uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path, properties={"delta.enableChangeDataFeed": "true"})
        table.append(rows(1, 2, day="d1"))
        table.append(rows(3, day="d2"))
        table.delete("day = 'd2'")
    options = {"readChangeFeed": "true", "startingVersion": 1}
    feed = session.read.format("deltasql").options(uri=uri, table="orders", **options).load()
    assert feed.where("day = 'd1'").count() == 2
    assert feed.count() == 4
    deleted = feed.where("_change_type = 'delete'")
    assert deleted.union(feed.where("_commit_version = 1")).count() == 3


def test_streams(session, uri, orders, tmp_path):
    """Two queries of one stream, and a stream that takes two of its parts."""
    stream = ours(session, uri, "orders")
    low, high = stream.where("day = 'd0'"), stream.where("day = 'd3'")
    first, second, third = (Sink(tmp_path / name) for name in ("low", "both", "whole"))
    assert ids(first.drain(low)[0]) == list(range(100))
    assert ids(second.drain(low.union(high))[0]) == [*range(100), *range(300, 400)]
    assert ids(third.drain(stream)[0]) == list(range(400))
    orders.append(rows(400, day="d3"))
    assert first.drain(low) == []
    assert ids(second.drain(low.union(high))[0]) == [400]
    assert ids(third.drain(stream)[0]) == [400]


def test_a_stream_joined_with_a_batch_of_the_same_table(session, uri, orders, frame, tmp_path):
    stream = ours(session, uri, "orders").where("day = 'd1'")
    joined = stream.join(frame.where("id < 150").select("id"), "id")
    assert ids(Sink(tmp_path / "joined").drain(joined)[0]) == list(range(100, 150))
    assert frame.count() == 400


def test_no_reader_takes_filters():
    """Whatever Spark pushes, the partitions are those of the options alone."""
    assert TableReader.pushFilters is DataSourceReader.pushFilters
