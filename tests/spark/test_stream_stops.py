"""What stops a stream, and what each option lets it pass over: as with Delta, never silently."""

from datetime import timedelta

import pytest

from builders import a_table, rows
from contests import contest
from deltasql.errors import (
    CorruptDataError,
    SchemaError,
    StreamError,
    TableNotFoundError,
    VacuumedError,
    VersionNotFoundError,
)
from deltasql.metastore.retention import ForgetPlan, Forgetting
from deltasql.protocol.schema.types import Primitive, StructField
from deltasql.testing import inspect
from streams import Driver, append, ids

pytestmark = pytest.mark.req("R26")


def forget(catalog, table, floor):
    row = table.refresh()
    Forgetting(inspect(catalog).database).run(row, ForgetPlan(floor, floor, floor))


def test_commits_that_delete(small):
    table, uri = small.table, small.uri
    append(table, 1, day="a")
    append(table, 2, day="b")
    table.delete("day = 'a'")
    append(table, 3)
    start = {"startingVersion": 1}
    with pytest.raises(StreamError, match="Version 3 of orders deleted rows") as caught:
        Driver(uri, "orders", **start).next()
    assert "ignoreDeletes" in caught.value.message
    for option in ("ignoreDeletes", "ignoreChanges", "skipChangeCommits"):
        stream = Driver(uri, "orders", **start, **{option: "true"})
        assert [ids(batch) for batch in stream.drain()] == [[1, 2, 3]], option


def test_commits_that_change(small):
    table, uri = small.table, small.uri
    append(table, 1, day="a")
    table.overwrite(rows(1, 4, day="a"), where="day = 'a'")
    append(table, 5)
    start = {"startingVersion": 1}
    for option in ({}, {"ignoreDeletes": "true"}):
        with pytest.raises(StreamError, match="Version 2 of orders changed rows") as caught:
            Driver(uri, "orders", **start, **option).next()
        assert "skipChangeCommits" in caught.value.message
    changes = Driver(uri, "orders", **start, ignoreChanges=True)
    assert [ids(batch) for batch in changes.drain()] == [[1, 1, 4, 5]]
    skipped = Driver(uri, "orders", **start, skipChangeCommits=True)
    assert [ids(batch) for batch in skipped.drain()] == [[1, 5]]


def test_commits_that_change_no_row_are_passed_over(small):
    table, uri = small.table, small.uri
    append(table, 1, 2)
    table.compact()
    table.alter(properties={"a.b": "c"})
    append(table, 3)
    stream = Driver(uri, "orders", startingVersion=1)
    assert [ids(batch) for batch in stream.drain()] == [[1, 2, 3]]
    table.compact()
    assert stream.next() == []
    assert stream.log[-1]["version"] == table.version + 1


def test_a_new_column_stops_the_query_and_a_restart_goes_on(small):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    stream.next()
    append(table, 2)
    table.alter(add=[StructField("more", Primitive("long"))])
    append(table, 3)
    with pytest.raises(SchemaError, match="changed at version 3: the column more") as caught:
        stream.next()
    assert "Restart the query" in caught.value.message
    stream.restart()
    assert [(row["id"], row["more"]) for row in stream.next()] == [(2, None), (3, None)]


def test_another_schema_cannot_be_read_backwards(small):
    table, uri = small.table, small.uri
    append(table, 1)
    table.overwrite(rows(2).select(["id", "day"]), schema_mode="overwrite")
    with pytest.raises(SchemaError, match="Version 1 of orders cannot be read with the schema"):
        Driver(uri, "orders", startingVersion=1).next()
    other = Driver(uri, "orders", startingVersion=2, ignoreChanges=True)
    assert ids(other.next()) == [2]


def test_the_schema_changed_since_the_stream_was_made(small):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    table.overwrite(rows(2).select(["id", "day"]), schema_mode="overwrite")
    with pytest.raises(SchemaError, match="no column name"):
        stream.next()


def test_an_offset_of_another_table_or_epoch_or_form(catalog_uri, catalog, table, tmp_path):
    append(table, 1)
    a_table(catalog, tmp_path, "other").append(rows(1))
    stream = Driver(catalog_uri, "orders", maxFilesPerTrigger=1)
    stream.next()
    stream.restart(table="other")
    with pytest.raises(StreamError, match="of another table than other"):
        stream.next()
    stream.restart(table="orders")
    catalog.new_epoch()
    with pytest.raises(StreamError, match="of epoch 1 of the catalog, which is in epoch 2"):
        stream.again()
    stream.log.append({"form": 0})
    with pytest.raises(StreamError, match="not one of format"):
        stream.next()


def test_a_table_that_was_dropped(small):
    catalog, table, uri = small.catalog, small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    stream.next()
    catalog.drop("orders")
    with pytest.raises(TableNotFoundError, match="was dropped"):
        stream.next()


def test_a_contest_that_is_settled_does_not_stop_a_stream(catalog_uri, catalog, table):
    """What was read keeps its number; what was foreign is read once."""
    append(table, 1)
    stream = Driver(catalog_uri, "orders", startingVersion=1)
    stream.next()
    contest(table)
    assert ids(stream.next()) == [10]
    catalog.mirror.repair("orders", recommit=True)
    assert ids(stream.next()) == [100]
    append(table, 2)
    assert ids(stream.next()) == [2]


def test_a_version_that_is_another_commit_than_the_one_that_was_read(small):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders", startingVersion=1)
    stream.next()
    assert stream.log[-1]["commitId"]
    stream.log.append({**stream.log[-1], "commitId": "of another database"})
    with pytest.raises(StreamError, match="not the commit that the stream has read"):
        stream.next()


def test_a_checkpoint_ahead_of_the_table(small):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    stream.next()
    stream.log.append({**stream.log[-1], "version": 9})
    with pytest.raises(StreamError, match="has read version 8 of orders, which has only 1"):
        stream.next()


def test_forgotten_versions(catalog_uri, catalog, table):
    append(table, 1, 2)
    stream = Driver(catalog_uri, "orders", startingVersion=1, maxFilesPerTrigger=1)
    assert ids(stream.next()) == [1]
    append(table, 3, 4, 5)
    forget(catalog, table, 4)
    with pytest.raises(VersionNotFoundError, match="has forgotten versions 2 to 3") as caught:
        stream.next()
    assert "failOnDataLoss" in caught.value.message
    with pytest.raises(VersionNotFoundError):
        stream.again()
    stream.restart(failOnDataLoss=False)
    assert [ids(batch) for batch in stream.drain()] == [[4], [5]]


def test_a_snapshot_that_is_forgotten_or_vacuumed_is_an_error(small):
    catalog, table, uri = small.catalog, small.table, small.uri
    append(table, 1, 2, 3)
    stream = Driver(uri, "orders", maxFilesPerTrigger=1, failOnDataLoss=False)
    stream.next()
    table.overwrite(rows(9))
    options = {"retain": timedelta(0), "allow_short_retention": True}
    table.vacuum(dry_run=False, **options)
    for _ in range(2):
        with pytest.raises(VacuumedError, match="vacuum deleted"):
            stream.next()
        stream.restart()
    with pytest.raises(VacuumedError):
        stream.again()
    forget(catalog, table, 4)
    stream.restart()
    with pytest.raises(VersionNotFoundError, match="no version 3"):
        stream.next()


@pytest.mark.parametrize("feed", ["false", "true"])
def test_files_of_commits_that_vacuum_deleted(catalog_uri, catalog, tmp_path, feed):
    properties = {"delta.enableChangeDataFeed": "true"}
    table = a_table(catalog, tmp_path, properties=properties)
    append(table, 1, 2)
    table.overwrite(rows(9))
    append(table, 10)
    table.vacuum(dry_run=False, retain=timedelta(0), allow_short_retention=True)
    options = {"readChangeFeed": feed, "ignoreChanges": "true"}
    stream = Driver(catalog_uri, "orders", startingVersion=2, **options)
    with pytest.raises(VacuumedError, match="Versions 2 to 4 of orders cannot be read"):
        stream.next()
    later = Driver(catalog_uri, "orders", startingVersion=4, **options)
    assert ids(later.next()) == [10]
    # the overwrite deleted rows that only the feed has to read
    middle = Driver(catalog_uri, "orders", startingVersion=3, **options)
    if feed == "false":
        assert ids(middle.next()) == [9, 10]
        return
    with pytest.raises(VacuumedError):
        middle.next()


def test_a_file_that_is_gone_is_an_error(small, tmp_path):
    table, uri = small.table, small.uri
    append(table, 1)
    stream = Driver(uri, "orders")
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(CorruptDataError, match="is missing"):
        stream.next()


def test_other_options_cannot_make_rows_disappear(small):
    catalog, table, uri = small.catalog, small.table, small.uri
    append(table, 1)
    with catalog.transaction() as tx:
        staged = tx.table("orders")
        staged.overwrite(rows(7, day="x"))
        staged.append(rows(8, day="y"))
    stream = Driver(uri, "orders", startingVersion=2, ignoreChanges=True, maxFilesPerTrigger=1)
    stream.next()
    stream.restart(skipChangeCommits=True)
    with pytest.raises(StreamError, match="counts 1 files where there are 0"):
        stream.again()
