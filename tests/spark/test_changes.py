"""The change feed from SQL is the one that Delta Spark reads from the log."""

from datetime import UTC, datetime
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.errors import (
    BadArgumentError,
    ChangeDataMissingError,
    SchemaError,
    StreamError,
    VersionNotFoundError,
)
from deltasql.protocol.schema.types import Primitive, StructField
from readers import sort_rows
from streams import Driver, Sink, deltas, ours

pytestmark = pytest.mark.req("R26")
FEED = {"delta.enableChangeDataFeed": "true"}
KINDS = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "rewritten": "'delta.enableDeletionVectors' = 'false'",
    "by id": "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'id'",
}


@pytest.fixture
def catalog(uri):
    with deltasql.connect(uri) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    return a_table(catalog, tmp_path, properties=FEED)


def place_of(table) -> str:
    return unquote(table.location.removeprefix("file://"))


def collected(frame):
    return sort_rows(frame.toArrow().to_pylist())


def delta_feed(session, place, **options):
    reader = session.read.format("delta").option("readChangeFeed", "true")
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader.load(place)


def source_feed(session, uri, name, **options):
    reader = session.read.format("deltasql").options(uri=uri, table=name, readChangeFeed="true")
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader.load()


def make(place, kind):
    """Every kind of change that Delta Spark writes: with files of changes, and without."""
    delta_spark.run(
        f"create table delta.`{place}` (id bigint not null, v string, p string) using delta "
        f"partitioned by (p) tblproperties ({KINDS[kind]}, "
        "'delta.enableChangeDataFeed' = 'true', 'delta.enableInCommitTimestamps' = 'true')"
    )
    table = f"delta.`{place}`"
    source = "select id, concat('v', id) as v, if(id % 2 = 0, 'a b', null) as p"
    delta_spark.run(f"insert into {table} {source} from range(0, 10, 1, 1)")
    delta_spark.run(f"delete from {table} where id in (1, 2)")
    delta_spark.run(f"delete from {table} where id = 3")
    delta_spark.run(f"update {table} set v = 'new' where id = 5")
    delta_spark.run(
        f"merge into {table} t using ({source} from range(8, 12)) s on t.id = s.id "
        "when matched then update set v = 'merged' when not matched then insert *"
    )
    delta_spark.run(f"optimize {table}")
    delta_spark.run(f"delete from {table} where p = 'a b'")
    delta_spark.run(f"restore table {table} to version as of 2")
    delta_spark.run(f"alter table {table} add columns (w int)")
    delta_spark.run(f"insert into {table} values (20, 'x', 'a b', 7)")


@pytest.mark.usefixtures("needs_delta")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("vectors", marks=pytest.mark.soak),
        pytest.param("rewritten", marks=pytest.mark.soak),
        pytest.param("by id", marks=pytest.mark.verify),
    ],
)
def test_the_feed_is_delta_sparks(session, uri, catalog, tmp_path, kind):
    session.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    place = str(tmp_path / "made")
    make(place, kind)
    catalog.import_table(place, "made", engine="local")
    whole = deltasql.spark.read_changes(session, uri, "made", start=0)
    other = delta_feed(session, place, startingVersion=0)
    assert whole.schema.json() == other.schema.json()
    wanted = collected(other)
    assert collected(whole) == wanted
    told = {row["_change_type"] for row in wanted}
    assert told == {"insert", "delete", "update_preimage", "update_postimage"}
    for first, last in ((2, 3), (7, 8), (9, 99)):
        part = deltasql.spark.read_changes(session, uri, "made", start=first, end=last)
        span = {"startingVersion": first, "endingVersion": last}
        expected = [row for row in wanted if first <= row["_commit_version"] <= last]
        # a table with mapped columns is read by those of the end
        found = collected(part)
        assert found == collected(delta_feed(session, place, **span))
        assert [row["id"] for row in found] == [row["id"] for row in expected]


@pytest.mark.usefixtures("needs_delta")
def test_the_feed_of_our_own_commits(session, uri, catalog, table):
    table.append(rows(1, 2))
    table.append(rows(3, day="b"))
    deltasql.spark.sql(session, uri, "UPDATE orders SET name = 'x' WHERE id = 1")
    table.delete("day = 'b'")
    table.overwrite(rows(7))
    table.wait_mirrored()
    place = place_of(table)
    wanted = collected(delta_feed(session, place, startingVersion=0))
    assert collected(deltasql.spark.read_changes(session, uri, "orders", start=0)) == wanted
    moment = table.history()[2].committed_at
    time = datetime.fromtimestamp(moment / 1000, UTC)
    by_time = deltasql.spark.read_changes(session, uri, "orders", start=time, end=time)
    text = time.strftime("%Y-%m-%d %H:%M:%S.%f")
    span = {"startingTimestamp": text, "endingTimestamp": text}
    expected = collected(delta_feed(session, place, **span))
    assert collected(by_time) == collected(source_feed(session, uri, "orders", **span)) == expected
    assert {row["_commit_version"] for row in expected} == {3}
    assert len(expected) == 2
    # the frame stays the range that it was planned on
    table.append(rows(9))
    assert collected(by_time) == expected
    some = source_feed(session, uri, "orders", startingVersion=1, columns="_change_type,id")
    assert some.columns == ["_change_type", "id"]
    assert ("insert", 9) in [tuple(row) for row in some.collect()]


@pytest.mark.usefixtures("needs_delta")
@pytest.mark.parametrize("start", [{}, {"startingVersion": 1}])
def test_a_stream_of_the_feed_is_delta_sparks(session, uri, table, tmp_path, start):
    table.append(rows(1, 2))
    deltasql.spark.sql(session, uri, "UPDATE orders SET name = 'x' WHERE id = 1")
    table.append(pa.concat_tables([rows(3, day="b"), rows(4, day="c")]))
    table.overwrite(rows(7))
    table.wait_mirrored()
    options = {"readChangeFeed": "true", "maxFilesPerTrigger": 1, **start}
    wanted = Sink(tmp_path / "delta").drain(deltas(session, place_of(table), **options))
    found = Sink(tmp_path / "ours").drain(ours(session, uri, "orders", **options))
    assert found == wanted
    assert Driver(uri, "orders", **options).drain() == wanted


def deltas_complaint(session, place, options):
    with pytest.raises(Exception) as caught:
        collected(delta_feed(session, place, **options))
    return delta_spark.complaint(caught.value)


@pytest.mark.usefixtures("needs_delta")
@pytest.mark.verify
def test_what_delta_refuses_is_refused(session, uri, table):
    table.append(rows(1))
    table.alter(properties={"delta.enableChangeDataFeed": "false"})
    table.append(rows(2))
    table.alter(properties=FEED)
    table.append(rows(3))
    table.wait_mirrored()
    place = place_of(table)
    cases = [
        ({"startingVersion": 0}, "DELTA_MISSING_CHANGE_DATA", "DS711.*version 2 of orders"),
        ({"startingVersion": 3}, "DELTA_MISSING_CHANGE_DATA", "DS711.*version 3 of orders"),
        ({"startingVersion": 6}, "DELTA_CDC_START_VERSION_AFTER_LATEST", "DS303.*no version 6"),
        ({"startingVersion": 5, "endingVersion": 4}, "DELTA_INVALID_CDC_RANGE", "DS103.*ends"),
        ({}, "DELTA_NO_START_FOR_CDC_READ", "DS103.*where to begin"),
        ({"startingTimestamp": "2190-01-01"}, "DELTA_TIMESTAMP_GREATER", "DS303.*so late"),
        (
            {"startingVersion": 4, "endingTimestamp": "2190-01-01"},
            "DELTA_TIMESTAMP_GREATER",
            "DS303.*so late",
        ),
        ({"startingVersion": 4, "endingTimestamp": "2001-01-01"}, "DELTA_TIME", "DS303.*younger"),
        ({"startingVersion": 4, "versionAsOf": 1}, "TIME_TRAVEL", "DS103.*one version"),
        ({"startingVersion": "latest"}, "DELTA_VERSION_INVALID", "DS103.*for streams"),
    ]
    for options, theirs, said in cases:
        assert theirs in deltas_complaint(session, place, options)
        with pytest.raises(Exception, match=rf"error\[{said}"):
            collected(source_feed(session, uri, "orders", **options))
    before = {"startingVersion": 0, "endingVersion": 1}
    found = collected(source_feed(session, uri, "orders", **before))
    assert found == collected(delta_feed(session, place, **before))
    assert [row["id"] for row in found] == [1]
    assert [row["id"] for row in Driver(uri, "orders", readChangeFeed="true").next()] == [1, 2, 3]


def test_calls_that_do_not_fit(session, uri, table):
    table.append(rows(1))
    with pytest.raises(VersionNotFoundError, match="no version 5 to begin with"):
        deltasql.spark.read_changes(session, uri, "orders", start=5)
    with pytest.raises(BadArgumentError, match="ends before it begins"):
        deltasql.spark.read_changes(session, uri, "orders", start=1, end=0)
    with pytest.raises(BadArgumentError, match="not a time"):
        deltasql.spark.read_changes(session, uri, "orders", start="soon")


def test_a_stream_stops_where_the_feed_was_off(uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    with pytest.raises(ChangeDataMissingError, match="version 1 of orders"):
        Driver(uri, "orders", readChangeFeed="true").next()
    table.alter(properties=FEED)
    stream = Driver(uri, "orders", readChangeFeed="true", startingVersion=2)
    assert stream.next() == []
    table.alter(properties={"delta.enableChangeDataFeed": "false"})
    with pytest.raises(ChangeDataMissingError, match="version 3 of orders"):
        stream.next()


def test_a_checkpoint_without_the_feed_is_none_of_the_feed(uri, table):
    table.append(rows(1))
    stream = Driver(uri, "orders")
    stream.next()
    stream.restart(readChangeFeed="true")
    with pytest.raises(StreamError, match="of a stream of orders without the change feed"):
        stream.next()


def test_a_schema_that_the_feed_cannot_tell(uri, table):
    table.append(rows(1))
    stream = Driver(uri, "orders", readChangeFeed="true", startingVersion=1)
    table.alter(add=[StructField("more", Primitive("long"))])
    with pytest.raises(SchemaError):
        stream.next()
    stream.restart()
    assert [row["more"] for row in stream.next()] == [None]


def test_columns_of_the_feeds_own_names(uri, catalog, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("_change_type", pa.string())])
    table = a_table(catalog, tmp_path, "odd", schema=schema, partition_by=[])
    table.append(pa.table({"id": [1], "_change_type": ["x"]}, schema=schema))
    with pytest.raises(SchemaError, match="a column _change_type of its own"):
        Driver(uri, "odd", readChangeFeed="true")
    # without the feed it is a column like others
    assert Driver(uri, "odd").next() == [{"_change_type": "x", "id": 1}]


def test_removes_that_do_not_tell_their_partition(uri, table):
    table.append(rows(1, 2, day="b"))
    (path,) = table.snapshot().files(["path"])["path"].to_pylist()
    table.commit([{"remove": {"path": path, "dataChange": True}}], expected_version=1)
    stream = Driver(uri, "orders", readChangeFeed="true", startingVersion=2)
    found = [(row["id"], row["day"], row["_change_type"]) for row in stream.next()]
    assert found == [(1, "b", "delete"), (2, "b", "delete")]
