"""Which files a stream reads, planned from SQL; Spark's part is played by a driver of the test."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

import deltasql
from builders import rows
from deltasql.errors import BadArgumentError, StreamError, VersionNotFoundError
from streams import Driver, append, ids

pytestmark = pytest.mark.req("R26")


def test_what_is_there_and_then_what_comes(catalog_uri, table):
    append(table, 1, 2, 3, 4, 5)
    stream = Driver(catalog_uri, "orders", maxFilesPerTrigger=2)
    assert ids(stream.next()) == [1, 2]
    append(table, 6, 7)
    assert [ids(batch) for batch in stream.drain()] == [[3, 4], [5, 6], [7]]
    assert stream.next() is None
    append(table, 8)
    assert [ids(batch) for batch in stream.drain()] == [[8]]


def test_a_batch_is_the_same_after_a_restart(catalog_uri, table):
    table.append(rows(1))
    append(table, 2, 3, 4)
    stream = Driver(catalog_uri, "orders", maxFilesPerTrigger=3)
    first = stream.next()
    append(table, 5)
    table.overwrite(rows(9))
    for _ in range(2):
        stream.restart()
        assert stream.again() == first
    with pytest.raises(StreamError, match="changed rows"):
        stream.next()
    stream.restart(skipChangeCommits=True)
    # the pinned version still holds the rest, and the commits behind it come after
    assert [ids(batch) for batch in stream.drain()] == [[4, 5]]


def test_in_the_middle_of_a_version(catalog_uri, table):
    table.append(rows())
    stream = Driver(catalog_uri, "orders", startingVersion="latest", maxFilesPerTrigger=2)
    assert stream.next() is None
    files = [rows(number, day=f"d{number}") for number in range(5)]
    with deltasql.connect(catalog_uri) as catalog, catalog.transaction() as tx:
        for each in files:
            tx.table("orders").append(each)
    assert ids(stream.next()) == [0, 1]
    assert (stream.log[-1]["index"], stream.log[-1]["isInitialSnapshot"]) == (2, False)
    append(table, 10)
    again = stream.next()
    stream.restart()
    assert stream.again() == again
    assert [ids(batch) for batch in stream.drain()] == [[4, 10]]


def test_limits(small):
    table, uri = small.table, small.uri
    append(table, *range(6))
    size = table.snapshot().files(["size"])["size"].to_pylist()[0]
    by_bytes = Driver(uri, "orders", maxBytesPerTrigger=size + 1)
    # as with Delta, the file that goes over is still taken
    assert [len(batch) for batch in by_bytes.drain()] == [2, 2, 2]
    assert by_bytes.reader.getDefaultReadLimit() == ReadMaxBytes(size + 1)
    both = Driver(uri, "orders", maxBytesPerTrigger="1g", maxFilesPerTrigger=4)
    assert [len(batch) for batch in both.drain()] == [4, 2]
    assert both.reader.getDefaultReadLimit() == ReadMaxFiles(4)
    everything = Driver(uri, "orders", maxFilesPerTrigger=1)
    assert len(everything.next(ReadAllAvailable())) == 6
    assert Driver(uri, "orders").reader.getDefaultReadLimit() == ReadMaxFiles(1000)


def test_available_now_sees_nothing_later(small):
    table, uri = small.table, small.uri
    append(table, 1, 2)
    stream = Driver(uri, "orders", maxFilesPerTrigger=1)
    stream.reader.prepareForTriggerAvailableNow()
    append(table, 3)
    assert [ids(batch) for batch in stream.drain()] == [[1], [2]]
    stream.restart()
    assert stream.reader.reportLatestOffset()["version"] == table.version + 1
    assert [ids(batch) for batch in stream.drain()] == [[3]]


def test_where_a_stream_begins(small):
    table, uri = small.table, small.uri
    append(table, 1, 2, 3)
    moments = {entry.version: entry.committed_at for entry in table.history()}

    def begun(**options):
        stream = Driver(uri, "orders", **options)
        return [number for batch in stream.drain() for number in ids(batch)]

    assert begun(startingVersion=2) == [2, 3]
    assert begun(startingVersion="latest") == []
    later = (datetime.fromtimestamp(moments[2] / 1000, UTC) + timedelta(milliseconds=1)).isoformat()
    exact = datetime.fromtimestamp(moments[2] / 1000, UTC).isoformat()
    assert begun(startingTimestamp=exact) == [2, 3]
    assert begun(startingTimestamp=later) == [3]
    assert begun(startingTimestamp="2001-01-01") == [1, 2, 3]
    for late in ({"startingVersion": 4}, {"startingTimestamp": "2190-01-01"}):
        with pytest.raises(VersionNotFoundError, match="to begin with"):
            begun(**late)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingVersion": 1, "startingTimestamp": "2020-01-01"}, "not both"),
        ({"startingVersion": "-1"}, "no version"),
        ({"startingTimestamp": "soon"}, "not a time"),
        ({"maxFilesPerTrigger": 0}, "positive number"),
        ({"maxBytesPerTrigger": "x"}, "such as 10g"),
        ({"ignoreDeletes": "yes"}, "true or false"),
        ({"endingVersion": 2}, "read once"),
        ({"versionAsOf": 1}, "one version"),
        ({"where": "id = 1"}, "one version"),
        ({"colour": "red"}, "no option 'colour'"),
    ],
)
def test_options_that_do_not_fit(small, options, said):
    table, uri = small.table, small.uri
    append(table, 1)
    with pytest.raises(BadArgumentError, match=said) as caught:
        Driver(uri, "orders", **options).next()
    assert caught.value.message.startswith("error[DS103]")


def test_columns_that_were_chosen(small):
    table, uri = small.table, small.uri
    append(table, 1)
    assert Driver(uri, "orders", columns="day, id").next() == [{"day": "a", "id": 1}]


def test_without_starts_as_pyspark_4_1_asks(small):
    """It asks for the end without telling the beginning, and for the beginning after that."""
    table, uri = small.table, small.uri
    append(table, 1, 2, 3)
    stream = Driver(uri, "orders", maxFilesPerTrigger=1)
    end = stream.reader.latestOffset()
    append(table, 4, 5)
    stream.log += [stream.reader.initialOffset(), end]
    assert ids(stream.again()) == [1, 2, 3]
    found = []
    while (end := stream.reader.latestOffset()) != stream.log[-1]:
        stream.log.append(end)
        found.append(ids(stream.again()))
    assert found == [[4], [5]]
    append(table, 6, 7)
    stream.restart()
    stream.log.append(stream.reader.latestOffset())
    assert ids(stream.again()) == [6, 7]


def test_asking_again_costs_one_query(small, monkeypatch):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    stream.drain()
    plan = stream.reader._plan
    asked = []
    rows_of = type(plan.database).fetch_all

    def counted(database, name, /, **params):
        asked.append(name)
        return rows_of(database, name, **params)

    def refused(_):
        raise AssertionError("a transaction for nothing")

    monkeypatch.setattr(type(plan.database), "fetch_all", counted)
    monkeypatch.setattr(type(plan.database), "read", refused)
    assert stream.next() is None
    assert asked == ["table_head"]
    monkeypatch.undo()
    append(table, 2)
    assert ids(stream.next()) == [2]
