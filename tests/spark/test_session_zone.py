"""Times that name no zone are those of the session's zone, as in Delta Spark: nothing is skipped
or replaced that Spark would have kept.
"""

import datetime as dt
import shutil

import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import a_table, rows
from readers import sort_rows
from spark_frames import adds

pytestmark = [pytest.mark.usefixtures("needs_delta"), pytest.mark.req("R26")]
ZONE = "spark.sql.session.timeZone"
PUSHES = "spark.sql.python.filterPushdown.enabled"
# by it the log spells timestamps with their zone; writers of old did not
SPELLED = "spark.databricks.delta.write.utcTimestampPartitionValues"
FILTERS = [
    "part >= '2024-03-31 01:00:00' and part < '2024-03-31 02:00:00'",
    "part = timestamp'2024-03-31 03:00:00'",
    "part < date'2024-03-31'",
    "at >= '2024-03-31 01:00:00' and at < '2024-03-31 02:00:00'",
    "at = timestamp'2024-03-31 00:30:00'",
    "at < date'2024-03-31'",
    "at in ('2024-03-31 02:30:00', '2024-03-30T23:30:00Z')",
]


@pytest.fixture(
    params=[
        "Europe/Berlin",
        pytest.param("America/Los_Angeles", marks=pytest.mark.soak),
        pytest.param("+05:00", marks=pytest.mark.soak),
    ]
)
def zone(request, session):
    yield from zoned(session, request.param)


@pytest.fixture
def berlin(session):
    yield from zoned(session, "Europe/Berlin")


def zoned(session, name):
    session.conf.set(ZONE, name)
    session.conf.set(SPELLED, "false")
    yield name
    session.conf.set(ZONE, "UTC")
    session.conf.unset(SPELLED)


def an_old_table(place):
    """Forty hours, a file and a partition each, around midnight; the log does not tell the zone."""
    hours = "timestamp_seconds(1711778400 + id * 3600{}) as {}"
    delta_spark.session().range(40).selectExpr(
        "id", hours.format("", "part"), hours.format(" + 1800", "at")
    ).repartition(1).write.format("delta").mode("append").partitionBy("part").save(str(place))
    texts = {add["partitionValues"]["part"] for add in adds(place, 0)}
    assert len(texts) == 40
    assert not any(text.endswith("Z") for text in texts)


@pytest.fixture
def old(uri, tmp_path, zone):
    yield from taken_over(uri, tmp_path)


@pytest.fixture
def old_in_berlin(uri, tmp_path, berlin):
    yield from taken_over(uri, tmp_path)


def taken_over(uri, tmp_path):
    """The same table twice: as Delta reads it, and taken over by deltasql."""
    an_old_table(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "ours")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
        yield catalog.table("t")


def collected(frame):
    return sort_rows(frame.toArrow().to_pylist())


def test_reads_find_what_delta_finds(session, uri, tmp_path, zone, old):
    session.conf.set(PUSHES, "true")
    plain = delta_spark._frame(str(tmp_path / "plain"))

    def source(**options):
        told = {"uri": uri, "table": "t", "timeZone": zone, **options}
        return session.read.format("deltasql").options(**told).load()

    try:
        assert collected(deltasql.spark.read(session, uri, "t")) == collected(plain)
        assert collected(source()) == collected(plain)
        for where in FILTERS:
            expected = collected(plain.where(where))
            assert 0 < len(expected) < 40, where
            ours = deltasql.spark.read(session, uri, "t", where=where)
            assert collected(ours) == expected
            assert ours.count() == len(expected), where
            assert collected(source().where(where)) == expected, where
            assert collected(source(where=where)) == expected, where
    finally:
        session.conf.unset(PUSHES)


def test_files_are_still_skipped(session, uri, berlin, old_in_berlin):
    where = FILTERS[3]
    plan = deltasql.spark.explain(uri, "t", where=where)
    assert 0 < plan.files.num_rows < 5
    assert deltasql.spark.read(session, uri, "t", where=where).count() == 1


@pytest.mark.parametrize(
    "options",
    [
        {"replaceWhere": "part = '2024-03-31 01:00:00'"},
        {"partitionOverwriteMode": "dynamic"},
    ],
)
def test_a_write_replaces_what_delta_replaces(session, uri, tmp_path, old_in_berlin, options):
    given = session.sql(
        "select 100L id, timestamp'2024-03-31 01:00:00' part, timestamp'2024-03-31 01:59:00' at"
    )
    plain = str(tmp_path / "plain")
    given.write.format("delta").mode("overwrite").options(**options).save(plain)
    deltasql.spark.write(given, uri, "t", mode="overwrite", options=options)
    expected = collected(delta_spark._frame(plain))
    assert len(expected) == 40
    assert collected(deltasql.spark.read(session, uri, "t")) == expected
    given.write.format("deltasql").mode("overwrite").options(
        uri=uri, table="t", timeZone="Europe/Berlin", **options
    ).save()
    assert collected(deltasql.spark.read(session, uri, "t")) == expected


def test_a_constraint_holds_in_the_zone_of_its_writer(session, uri, tmp_path, old_in_berlin):
    since = {"delta.constraints.since": "at >= '2024-03-30 01:00:00'"}
    old_in_berlin.alter(properties=since)
    good = "select 1L id, timestamp'2024-03-30 00:00:00Z' part, timestamp'2024-03-30 00:00:00Z' at"
    assert deltasql.spark.write(session.sql(good), uri, "t") == old_in_berlin.version
    deltasql.spark.write(session.sql(good), uri, "t", max_records_per_file=10)


def test_times_that_choose_a_version(session, uri, tmp_path, berlin):
    """Half an hour lies between versions; read as UTC, the time would be that of the third."""
    now = 1_700_000_000_000
    with deltasql.connect(uri, clock=lambda: now) as catalog:
        table = a_table(catalog, tmp_path, properties={"delta.enableChangeDataFeed": "true"})
        for number in range(1, 4):
            now += 30 * 60 * 1000
            table.append(rows(number))
    first = "2023-11-14 23:43:20"
    assert deltasql.spark.read(session, uri, "orders", timestamp=first).count() == 1
    moment = dt.datetime.fromisoformat(first)
    assert deltasql.spark.read(session, uri, "orders", timestamp=moment).first().id == 1
    changes = deltasql.spark.read_changes(session, uri, "orders", start=first, end=first)
    assert [row.id for row in changes.collect()] == [1]
    named = session.read.format("deltasql").options(uri=uri, table="orders", timeZone=berlin)
    assert named.option("timestampAsOf", first).load().count() == 1
    fed = session.read.format("deltasql").options(uri=uri, table="orders", timeZone=berlin)
    between = {"readChangeFeed": "true", "startingTimestamp": first, "endingTimestamp": first}
    assert [row.id for row in fed.options(**between).load().collect()] == [1]


def test_a_zone_that_is_none(session, uri, old_in_berlin):
    source = session.read.format("deltasql").options(uri=uri, table="t", timeZone="Berlin")
    with pytest.raises(Exception, match="The time zone 'Berlin' is not known"):
        source.load()


def test_compaction_keeps_the_spelling(session, uri, tmp_path, berlin):
    """What a time without a zone means is not for a compaction to settle."""
    for _ in range(2):
        an_old_table(tmp_path / "ours")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
        table = catalog.table("t")
        before, expected = spelled(table), collected(deltasql.spark.read(session, uri, "t"))
        table.compact()
        after = spelled(table)
    assert sorted(before) == sorted(after * 2)
    assert collected(deltasql.spark.read(session, uri, "t")) == expected


def spelled(table):
    return table.snapshot().files(["partition_values"])["partition_values"].to_pylist()
