"""Streams of format("deltasql") give what Delta Spark's own give from the mirrored log."""

from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import delta_spark
import deltasql
import deltasql.spark
from builders import a_table, rows
from deltasql.protocol.schema.types import Primitive, StructField
from streams import Driver, Sink, append, deltas, ids, ours

pytestmark = pytest.mark.req("R26")


def place_of(table) -> str:
    return unquote(table.location.removeprefix("file://"))


def files(*numbers):
    """Rows of as many partitions: a commit of as many files."""
    return pa.concat_tables([rows(number, day=f"d{number}") for number in numbers])


@pytest.mark.usefixtures("needs_delta")
@pytest.mark.parametrize(
    "catalog_uri", ["sqlite", pytest.param("postgres", marks=pytest.mark.verify)], indirect=True
)
def test_rows_and_batches_are_delta_sparks(session, catalog_uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    append(table, 0, 1, 2, 3, 4)
    table.wait_mirrored()
    options = {"maxFilesPerTrigger": 2}
    ours_sink, deltas_sink = Sink(tmp_path / "ours"), Sink(tmp_path / "delta")
    stream, other = (
        ours(session, catalog_uri, "orders", **options),
        deltas(session, place_of(table), **options),
    )
    assert stream.schema.json() == other.schema.json()
    assert stream.isStreaming
    found = ours_sink.drain(stream)
    assert found == deltas_sink.drain(other)
    assert [len(batch) for batch in found] == [2, 2, 1]
    # from the checkpoint, into the middle of a version
    table.append(files(10, 11, 12))
    table.compact()
    table.append(files(13))
    table.wait_mirrored()
    found = ours_sink.drain(ours(session, catalog_uri, "orders", **options))
    assert found == deltas_sink.drain(deltas(session, place_of(table), **options))
    assert [ids(batch) for batch in found] == [[10, 11], [12, 13]]


OPTIONS = [
    {},
    {"ignoreDeletes": "true"},
    {"ignoreChanges": "true"},
    {"skipChangeCommits": "true"},
]
STARTS = [
    {},
    {"startingVersion": 0},
    {"startingVersion": 3},
    {"startingVersion": "latest"},
    {"startingVersion": 99},
    {"startingTimestamp": "2001-01-01"},
    {"startingTimestamp": "2190-01-01"},
]
REFUSALS = {
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES": "DS710",
    "DELTA_SOURCE_IGNORE_DELETE": "DS710",
    "DELTA_VERSION_NOT_FOUND": "DS303",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DS303",
}


def outcome(run, *given):
    """Return all rows, or the code of what was refused."""
    try:
        return sorted(number for batch in run(*given) for number in ids(batch))
    except (PySparkException, deltasql.DeltaSqlError) as error:
        told = delta_spark.complaint(error)
        names = {**REFUSALS, **{f"error[{code}]": code for code in REFUSALS.values()}}
        return next(code for name, code in names.items() if name in told)


@pytest.fixture
def changed(session, small, tmp_path):
    """A table with every kind of commit: appends, a change by vector, a delete, a compaction."""
    delta_spark.find_jars()
    vectors = {"delta.enableDeletionVectors": "true"}
    table = a_table(small.catalog, tmp_path, "changed", properties=vectors)
    table.append(rows(1, 2))
    deltasql.spark.sql(session, small.uri, "DELETE FROM changed WHERE id = 1")
    table.append(rows(3, day="b"))
    table.delete("day = 'b'")
    table.append(rows(4))
    table.compact()
    table.wait_mirrored()
    return table


@pytest.mark.parametrize("start", [{"startingVersion": 1}, {"startingVersion": 4}])
def test_each_option_lets_through_what_delta_lets(session, small, changed, tmp_path, start):
    found = {}
    for option in OPTIONS:
        name = next(iter(option), "none")
        other = deltas(session, place_of(changed), **start, **option)
        wanted = outcome(Sink(tmp_path / name).drain, other)
        stream = Driver(small.uri, "changed", **start, **option)
        assert outcome(stream.drain) == wanted, option
        found[name] = wanted
    if start["startingVersion"] == 1:
        assert found == {
            "none": "DS710",
            "ignoreDeletes": "DS710",
            "ignoreChanges": [1, 2, 2, 3, 4],
            "skipChangeCommits": [1, 2, 3, 4],
        }
    else:
        assert found == {"none": "DS710", **{key: [4] for key in list(found)[1:]}}


def test_each_start_begins_where_delta_begins(session, small, changed, tmp_path):
    for number, start in enumerate(STARTS):
        options = {**start, "skipChangeCommits": "true"}
        other = deltas(session, place_of(changed), **options)
        wanted = outcome(Sink(tmp_path / str(number)).drain, other)
        assert outcome(Driver(small.uri, "changed", **options).drain) == wanted, start


@pytest.mark.usefixtures("needs_delta")
@pytest.mark.parametrize("mode", ["id", pytest.param("name", marks=pytest.mark.verify)])
def test_mapped_columns_and_vectors(session, small, tmp_path, mode):
    session.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    place = str(tmp_path / "made")
    delta_spark.run(
        f"create table delta.`{place}` (id bigint not null, `a b` string, p date) using delta "
        "partitioned by (p) tblproperties ('delta.enableDeletionVectors' = 'true', "
        f"'delta.columnMapping.mode' = '{mode}')"
    )
    delta_spark.run(
        f"insert into delta.`{place}` select id, concat('n', id), "
        "date_add(date'2024-01-01', cast(id % 3 as int)) from range(0, 30, 1, 1)"
    )
    delta_spark.run(f"delete from delta.`{place}` where id % 7 = 0")
    small.catalog.import_table(place, "made", engine="local")
    found = Sink(tmp_path / "ours").drain(ours(session, small.uri, "made", maxFilesPerTrigger=2))
    other = Sink(tmp_path / "delta").drain(deltas(session, place, maxFilesPerTrigger=2))
    assert found == other
    assert sum(map(len, found)) == 25


def test_a_running_query_sees_what_is_committed(session, small, tmp_path):
    append(small.table, 1)
    sink = Sink(tmp_path / "sink")
    query = sink.start(ours(session, small.uri, "orders"), processingTime="0 seconds")
    try:
        for number in range(2, 5):
            append(small.table, number)
            query.processAllAvailable()
            assert ids(sink.rows) == list(range(1, number + 1))
        progress = query.lastProgress.sources[0]
        assert small.table.table_id in progress.endOffset
        assert '"version": 5' in progress.latestOffset
    finally:
        query.stop()


def test_a_sink_that_failed_gets_the_same_batch_again(session, small, tmp_path):
    append(small.table, 1, 2, 3, 4)

    class Failing(Sink):
        def _take(self, frame, number):
            if number == 1:
                seen.append(ids(frame.toArrow().to_pylist()))
                raise OSError("the disk is full")
            super()._take(frame, number)

    seen: list[list[int]] = []
    broken = Failing(tmp_path / "sink")
    with pytest.raises(Exception, match="the disk is full"):
        broken.drain(ours(session, small.uri, "orders", maxFilesPerTrigger=1))
    append(small.table, 5)
    small.table.compact()
    mended = Sink(tmp_path / "sink")
    mended.batches = broken.batches
    mended.drain(ours(session, small.uri, "orders", maxFilesPerTrigger=3))
    assert ids(mended.rows) == [1, 2, 3, 4, 5]
    assert [ids(mended.batches[1])] == seen


def test_a_query_stops_with_our_code_and_goes_on_after_a_restart(session, small, tmp_path):
    append(small.table, 1)
    sink = Sink(tmp_path / "sink")
    query = sink.start(ours(session, small.uri, "orders"), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        small.table.alter(add=[StructField("more", Primitive("long"))])
        with pytest.raises(Exception, match=r"error\[DS205\].*changed at version 2.*Restart"):
            query.awaitTermination(60)
    finally:
        query.stop()
    append(small.table, 2)
    sink.drain(ours(session, small.uri, "orders"))
    assert [(row["id"], row.get("more")) for row in sink.rows] == [(1, None), (2, None)]
    small.table.overwrite(rows(3))
    with pytest.raises(Exception, match=r"error\[DS710\]: Version 4 of orders changed rows"):
        sink.drain(ours(session, small.uri, "orders"))
