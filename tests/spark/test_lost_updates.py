"""What a DataFrame was read from counts as read: an overwrite by it loses nobody's commit."""

import sys

import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.errors import CommitConflictError
from readers import read_deltasql
from spark_frames import a_big_frame

pytestmark = [pytest.mark.req("R26"), pytest.mark.usefixtures("needs_delta")]


@pytest.fixture
def orders(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, 2, day="a"))
        table.append(rows(3, day="b"))
        yield table


@pytest.fixture(params=["native", "delta", "python"])
def way(request, orders, session, uri, monkeypatch):
    """Each of the three ways to read a table."""
    if request.param != "native":
        with deltasql.spark.transaction(session, uri) as tx:
            tx.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        deltasql.spark.write(a_big_frame(session, 100, day="a"), uri, "orders")
        deltasql.spark.sql(session, uri, "DELETE FROM orders WHERE id = 100")
    if request.param == "python":
        reading = sys.modules["deltasql.spark.read.dataframe"]
        monkeypatch.setattr(reading, "delta_can_scan", lambda *_: False)
    assert deltasql.spark.explain(uri, "orders").way == request.param
    return request.param


def ids(table):
    return sorted(row["id"] for row in read_deltasql(table) if row["id"] < 100)


CHANGES = {
    "an append": lambda table: table.append(rows(7, day="a")),
    "a delete": lambda table: table.delete("day = 'a'"),
    "an overwrite": lambda table: table.overwrite(rows(7, day="a"), where="day = 'a'"),
}
WRITES = {
    "all": {},
    "replaceWhere": {"replace_where": "day = 'a'"},
    "dynamic": {"partition_overwrite_mode": "dynamic"},
}


def raised(frame):
    return frame.where("day = 'a'").selectExpr("id + 10 as id", "name", "day")


@pytest.mark.parametrize("options", WRITES.values(), ids=list(WRITES))
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_commit_in_between_is_a_conflict(session, uri, orders, change, options):
    frame = raised(deltasql.spark.read(session, uri, "orders"))
    change(orders)
    before = read_deltasql(orders)
    with pytest.raises(CommitConflictError, match="conflicts with version 3"):
        deltasql.spark.write(frame, uri, "orders", mode="overwrite", **options)
    assert read_deltasql(orders) == before


def test_stock_delta_loses_nothing_either(session, tmp_path):
    """Its frames read the newest version when they run: ours stay, so they conflict."""
    place = str(tmp_path / "delta")
    session.range(2).write.format("delta").save(place)
    frame = session.read.format("delta").load(place).selectExpr("id + 10 as id")
    session.range(5, 6).write.format("delta").mode("append").save(place)
    frame.write.format("delta").mode("overwrite").save(place)
    assert [row["id"] for row in delta_spark.read_delta_spark(place)] == [10, 11, 15]


def test_every_way_to_read_counts(session, uri, orders, way):
    frame = deltasql.spark.read(session, uri, "orders")
    orders.append(rows(7, day="a"))
    with pytest.raises(CommitConflictError):
        deltasql.spark.write(raised(frame), uri, "orders", mode="overwrite")
    anew = deltasql.spark.read(session, uri, "orders")
    deltasql.spark.write(raised(anew).where("id < 100"), uri, "orders", mode="overwrite")
    assert ids(orders) == [11, 12, 17]


def _derived(session, frame):
    """What people make of a DataFrame before they write it."""
    other = session.createDataFrame([(1,)], "id long")
    frame.createOrReplaceTempView("seen_orders")
    yield "join", frame.join(other, "id")
    yield "self join", frame.alias("x").join(frame.alias("y"), "id").select("x.*")
    yield "union", frame.union(frame.where("id = 1"))
    yield "view", session.sql("select * from seen_orders where id < 5")
    yield (
        "subquery",
        session.sql(
            "select 1L id, 'a' name, 'a' day from range(1) "
            "where 3 = (select max(id) from seen_orders)"
        ),
    )
    yield (
        "common table",
        session.sql(
            "with c as (select * from seen_orders) select a.* from c a join c b using (id)"
        ),
    )
    yield "cache", frame.where("id = 1").cache()
    yield "aggregate", frame.groupBy("name", "day").agg({"id": "max"}).toDF("name", "day", "id")
    yield "repartition", frame.repartition(2).sortWithinPartitions("id").dropDuplicates(["id"])


def test_whatever_is_made_of_a_frame_counts(session, uri, orders):
    frame = deltasql.spark.read(session, uri, "orders")
    derived = dict(_derived(session, frame))
    orders.append(rows(7, day="a"))
    for name, made in derived.items():
        with pytest.raises(CommitConflictError):
            deltasql.spark.write(made.select("id", "name", "day"), uri, "orders", mode="overwrite")
            pytest.fail(f"{name} was written")
    assert len(derived) == 9
    session.catalog.dropTempView("seen_orders")
    derived["cache"].unpersist()


def test_attached_views_count(session, uri, orders):
    deltasql.spark.attach(session, uri)
    frame = session.table("orders")
    orders.append(rows(7, day="a"))
    with pytest.raises(CommitConflictError):
        deltasql.spark.write(raised(frame), uri, "orders", mode="overwrite")
    session.catalog.dropTempView("orders")


def test_other_partitions_are_no_conflict(session, uri, orders):
    """Jobs that rewrite a day each go on beside each other, and so does a loop over days."""
    frame = deltasql.spark.read(session, uri, "orders")
    for day in ("a", "b"):
        one = frame.where(f"day = '{day}'").selectExpr("id + 10 as id", "name", "day")
        options = {"replace_where": f"day = '{day}'"}
        deltasql.spark.write(one, uri, "orders", mode="overwrite", **options)
    assert ids(orders) == [11, 12, 13]


def test_nothing_in_between_is_no_conflict(session, uri, orders):
    frame = deltasql.spark.read(session, uri, "orders")
    deltasql.spark.write(raised(frame), uri, "orders", mode="overwrite")
    assert ids(orders) == [11, 12]


def test_a_version_that_was_asked_for_may_come_back(session, uri, orders):
    """Whoever names an older version wants it, whatever came since."""
    old = deltasql.spark.read(session, uri, "orders", version=1)
    orders.append(rows(7, day="a"))
    deltasql.spark.write(old, uri, "orders", mode="overwrite")
    assert ids(orders) == [1, 2]


def test_frames_of_other_tables_and_appends_are_as_ever(session, uri, orders, tmp_path):
    frame = deltasql.spark.read(session, uri, "orders")
    place = str(tmp_path / "copies")
    deltasql.spark.write(frame, uri, "copies", location=place)
    orders.append(rows(7, day="a"))
    deltasql.spark.write(frame, uri, "copies", mode="overwrite")
    deltasql.spark.write(frame.where("id = 1"), uri, "orders", mode="append")
    assert ids(orders) == [1, 1, 2, 3, 7]
