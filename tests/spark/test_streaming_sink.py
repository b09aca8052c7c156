"""df.writeStream.format("deltasql"): every row exactly once, whatever is repeated."""

import json
import os
import shutil
from pathlib import Path

import pytest

import deltasql
from builders import a_table, ids, rows
from deltasql.spark import transaction, write
from deltasql.testing import check_invariants
from spark_frames import expect_equal_everywhere

pytestmark = pytest.mark.usefixtures("spark")
COLUMNS = "id long, name string, day string"


@pytest.fixture
def catalog_uri(tmp_path):
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


@pytest.fixture
def arriving(session, tmp_path):
    """A folder with three files, each of which makes a batch; returns the stream of its rows."""
    place = tmp_path / "arriving"
    for batch in range(3):
        numbers = range(batch * 10, batch * 10 + 10)
        lines = [json.dumps({"id": n, "name": f"n{n}", "day": "a"}) for n in numbers]
        place.mkdir(exist_ok=True)
        file = place / f"{batch}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (batch + 1, batch + 1))  # the order in which they come
    return lambda: (
        session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(place))
    )


def begin(frame, uri, checkpoint, mode="append", table="orders", **options):
    """Start a stream that ends when all that is there has been written."""
    writer = frame.writeStream.format("deltasql").outputMode(mode)
    writer = writer.options(table=table, checkpointLocation=str(checkpoint), **options)
    return writer.trigger(availableNow=True).start(uri)


def run(*args, **options):
    """Run a stream to its end and return its query."""
    query = begin(*args, **options)
    query.awaitTermination()
    return query


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Let Spark forget that a batch ended, as if it had died before it wrote so down."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_every_batch_once(session, arriving, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    checkpoint = tmp_path / "checkpoint"
    query = run(arriving(), catalog_uri, checkpoint, userMetadata="from files")
    assert (table.version, ids(table)) == (3, list(range(30)))
    known = json.loads((checkpoint / "metadata").read_text())["id"]
    assert known == query.id
    note = table.history(1)[0]
    assert (note.operation, note.user_metadata) == ("STREAMING UPDATE", "from files")
    assert note.operation_params["queryId"] == known
    assert [(txn.app_id, txn.version) for txn in table.snapshot().txns()] == [(known, 2)]
    forget_commit(checkpoint, 2)
    run(arriving(), catalog_uri, checkpoint)
    assert (table.version, ids(table)) == (3, list(range(30)))
    expect_equal_everywhere(table)
    check_invariants(catalog, "orders")


def test_a_table_that_the_stream_makes(arriving, catalog, catalog_uri, tmp_path):
    options = {"location": str(tmp_path / "made"), "partitionBy": "day"}
    run(arriving(), catalog_uri, tmp_path / "checkpoint", table="made", **options)
    table = catalog.table("made")
    assert (table.version, ids(table)) == (2, list(range(30)))
    assert table.snapshot().metadata.partition_columns == ["day"]


def test_complete_mode(arriving, catalog, catalog_uri, tmp_path):
    """Each batch replaces all rows; update mode, which would need a merge, is Spark's to refuse."""
    options = {"location": str(tmp_path / "totals")}
    checkpoint = tmp_path / "checkpoint"
    counts = arriving().groupBy("day").count()
    run(counts, catalog_uri, checkpoint, "complete", "totals", **options)
    table = catalog.table("totals")
    assert expect_equal_everywhere(table) == [{"day": "a", "count": 30}]
    assert table.history(1)[0].operation_params["outputMode"] == "Complete"
    forget_commit(checkpoint, 2)
    before = table.version
    run(arriving().groupBy("day").count(), catalog_uri, checkpoint, "complete", "totals")
    assert table.version == before
    with pytest.raises(Exception, match="does not support Update mode"):
        run(counts, catalog_uri, tmp_path / "other", "update", "totals")


def test_a_refusal_is_told_with_its_code(arriving, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    table.alter(properties={"delta.constraints.low": "id < 15"})
    with pytest.raises(Exception, match=r"error\[DS206\]: .*constraint low"):
        run(arriving(), catalog_uri, tmp_path / "checkpoint")
    assert ids(table) == list(range(10))
    table.alter(unset=["delta.constraints.low"])
    run(arriving(), catalog_uri, tmp_path / "checkpoint")
    assert ids(table) == list(range(30))


def test_two_streams_into_one_table(arriving, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    frames = [arriving(), arriving().selectExpr("id + 100 as id", "name", "'b' as day")]
    places = [tmp_path / "one", tmp_path / "other"]
    pairs = zip(frames, places, strict=True)
    for query in [begin(frame, catalog_uri, place) for frame, place in pairs]:
        query.awaitTermination()
    assert ids(table) == [*range(30), *range(100, 130)]
    assert table.version == 6
    check_invariants(catalog, "orders")


def test_a_checkpoint_that_is_gone_begins_anew(arriving, catalog, catalog_uri, tmp_path):
    """A new checkpoint is a new query: its rows are new rows, as Spark says."""
    table = a_table(catalog, tmp_path)
    checkpoint = tmp_path / "checkpoint"
    run(arriving(), catalog_uri, checkpoint, txnAppId="mine")
    shutil.rmtree(checkpoint)
    run(arriving(), catalog_uri, checkpoint, txnAppId="mine")
    assert ids(table) == list(range(30))  # by its own name the batches are known all the same
    run(arriving(), catalog_uri, tmp_path / "another")
    assert len(ids(table)) == 60


@pytest.mark.req("R84")
def test_several_tables_of_each_batch(arriving, catalog, catalog_uri, tmp_path):
    """The recipe of the guide: one transaction over both tables, known by the batch's number."""
    a_table(catalog, tmp_path, "orders", partition_by=[])
    a_table(catalog, tmp_path, "copies", partition_by=[])
    died = []

    def write_batch(frame, batch):
        table = frame.toArrow()
        with (
            deltasql.connect(catalog_uri) as opened,
            opened.transaction(txn=("job", batch)) as tx,
        ):
            tx.table("orders").append(table)
            tx.table("copies").append(table)
        if batch == 1 and not died:
            died.append(batch)
            raise RuntimeError("killed after the commit")

    def start():
        writer = arriving().writeStream.foreachBatch(write_batch)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="killed after the commit"):
        start()
    start()
    for name in ("orders", "copies"):
        table = catalog.table(name)
        assert (table.version, ids(table)) == (3, list(range(30)))


def test_one_table_of_each_batch_by_write(arriving, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)

    def write_batch(frame, batch):
        for _ in range(2):
            write(frame, catalog_uri, "orders", txn_app_id="job", txn_version=batch)

    writer = arriving().writeStream.foreachBatch(write_batch)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert (table.version, ids(table)) == (3, list(range(30)))


@pytest.mark.verify
def test_statements_of_each_batch(arriving, catalog, catalog_uri, tmp_path, needs_delta):
    """The recipe with Delta's statements: a merge into one table and an append to another."""
    a_table(catalog, tmp_path, "orders", partition_by=[])
    a_table(catalog, tmp_path, "copies", partition_by=[]).append(rows(100))

    def write_batch(frame, batch):
        frame.createOrReplaceTempView("batch")
        # a batch belongs to a session of its own
        with transaction(frame.sparkSession, catalog_uri, txn=("job", batch)) as tx:
            tx.sql(
                "MERGE INTO orders USING batch ON orders.id = batch.id "
                "WHEN NOT MATCHED THEN INSERT *"
            )
            tx.sql("INSERT INTO copies SELECT * FROM batch")

    def start(checkpoint):
        writer = arriving().writeStream.foreachBatch(write_batch)
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    start(tmp_path / "one")
    start(tmp_path / "another")
    assert ids(catalog.table("orders")) == list(range(30))
    assert ids(catalog.table("copies")) == [*range(30), 100]
