"""spark.write to tables with generated columns and defaults, side by side with Delta Spark."""

import datetime as dt

import pyarrow as pa
import pytest

import delta_spark
import deltasql
from deltasql.errors import ConstraintViolationError, UnsupportedFeatureError
from deltasql.spark import write
from readers import read_deltasql

pytestmark = pytest.mark.usefixtures("spark", "needs_delta")
TABLE = """(
    id long,
    at timestamp,
    day date generated always as (cast(at as date)),
    twice long not null generated always as (id * 2),
    kind string default 'plain',
    price decimal(10, 2) default 1.5
) using delta partitioned by (day)
tblproperties ('delta.feature.allowColumnDefaults' = 'supported')"""
ROWS = ["id", "timestampadd(HOUR, int(id) * 5, timestamp'2024-02-28 20:30:00Z') as at"]


PRICE = "cast(2.25 as decimal(10,2)) as price"


@pytest.fixture
def place(session, uri, tmp_path):
    """The same table twice: `ours` is under SQL, `theirs` stays with Delta Spark."""
    for name in ("ours", "theirs"):
        session.sql(f"create table delta.`{tmp_path / name}` {TABLE}")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
    return tmp_path


def expect_twins(uri, place):
    with deltasql.connect(uri) as catalog:
        ours = read_deltasql(catalog.table("t"))
    delta_spark.forget()
    assert delta_spark.read_delta_spark(str(place / "ours")) == ours
    assert delta_spark.read_delta_spark(str(place / "theirs")) == ours
    return ours


def test_made_as_delta_makes_them(session, uri, place):
    frames = [
        session.range(6, numPartitions=2).selectExpr(*ROWS, "'x' as kind", PRICE),
        # what the rows bring is checked; the case of names does not matter
        session.range(6, 9).selectExpr(
            *ROWS,
            "id * 2 as TWICE",
            "cast(null as string) as kind",
            PRICE,
        ),
    ]
    for frame in frames:
        write(frame, uri, "t")
        frame.write.format("delta").mode("append").save(str(place / "theirs"))
    ours = expect_twins(uri, place)
    assert [row["twice"] for row in ours] == [number * 2 for number in range(9)]
    assert ours[0]["day"] == dt.date(2024, 2, 28)
    assert ours[8]["kind"] is None


def test_defaults_where_a_column_is_missing(session, uri, place):
    frame = session.range(3).selectExpr(*ROWS)
    write(frame, uri, "t")
    frame.createOrReplaceTempView("arrived")
    session.sql(f"insert into delta.`{place / 'theirs'}` (id, at) select id, at from arrived")
    ours = expect_twins(uri, place)
    assert {(row["kind"], str(row["price"])) for row in ours} == {("plain", "1.50")}


def test_rows_that_bring_something_else_are_refused(session, uri, place):
    wrong = session.range(3).selectExpr(*ROWS, "id * 3 as twice")
    with pytest.raises(ConstraintViolationError, match=r"2 rows .*column twice.*id \* 2"):
        write(wrong, uri, "t")
    assert expect_twins(uri, place) == []


def test_delta_spark_goes_on(session, uri, place):
    write(session.range(2).selectExpr(*ROWS), uri, "t", mode="overwrite")
    with deltasql.connect(uri) as catalog:
        catalog.table("t").detach()
    delta_spark.forget()
    more = session.range(2, 4).selectExpr(*ROWS, "'x' as kind", PRICE)
    more.write.format("delta").mode("append").save(str(place / "ours"))
    found = delta_spark.read_delta_spark(str(place / "ours"))
    assert [(row["id"], row["twice"]) for row in found] == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_what_only_spark_can_make_is_not_written_by_others(session, uri, place):
    frame = session.range(2).selectExpr(*ROWS)
    with pytest.raises(Exception, match=r"error\[DS203\].*day is generated.*deltasql.spark.write"):
        frame.write.format("deltasql").mode("append").option("table", "t").save(uri)
    with deltasql.connect(uri) as catalog, pytest.raises(UnsupportedFeatureError):
        catalog.table("t").append(frame.toArrow())


def test_an_identity_column_is_refused(session, uri, tmp_path):
    place = tmp_path / "numbered"
    session.sql(
        f"create table delta.`{place}` (id long generated always as identity, x long) using delta"
    )
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(place), "numbered", engine="local")
        catalog.cutover("numbered")
    with pytest.raises(UnsupportedFeatureError, match="id is an identity column"):
        write(session.range(1).selectExpr("id as x"), uri, "numbered")


def test_literal_defaults_by_our_own_writer(session, uri, tmp_path):
    columns = (
        "(id long, n int default -7, s string default 'it''s', d date default date'2024-02-29', "
        "x decimal(9,3) default 1.5, b boolean default true) using delta "
        "tblproperties ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    for name in ("ours", "theirs"):
        session.sql(f"create table delta.`{tmp_path / name}` {columns}")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
        catalog.table("t").append(pa.table({"id": [0], "s": ["given"]}))
    frame = session.range(1, 3)
    frame.write.format("deltasql").mode("append").option("table", "t").save(uri)
    session.sql(f"insert into delta.`{tmp_path / 'theirs'}` (id, s) values (0, 'given')")
    session.sql(f"insert into delta.`{tmp_path / 'theirs'}` (id) values (1), (2)")
    assert expect_twins(uri, tmp_path)[2]["n"] == -7
