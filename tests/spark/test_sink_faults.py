"""The writers of format("deltasql") when tasks run twice, replies get lost, others are first."""

from pathlib import Path
from urllib.parse import unquote

import pytest

import deltasql
from builders import SCHEMA, a_table, ids, rows
from deltasql.errors import (
    BadArgumentError,
    CommitConflictError,
    ConstraintViolationError,
    CorruptDataError,
    OwnershipError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltasql.spark.source.source_options import batch_options, stream_options
from deltasql.testing import check_invariants
from deltasql.testing.crash_points import hooked
from spark_sinks import SparkBatch, SparkJob


class Stop(Exception):  # noqa: N818 (a fault, not an error of ours)
    """What a test throws in the middle of a commit."""


def stop_at(point):
    def hook(name):
        if name == point:
            raise Stop

    return hooked(hook)


@pytest.fixture
def uri(catalog_uri):
    return catalog_uri


@pytest.fixture
def table(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        yield a_table(catalog, tmp_path)


def files(table) -> list[Path]:
    return sorted(Path(unquote(table.location.removeprefix("file://"))).rglob("*.parquet"))


def test_a_task_that_ran_twice_counts_once(uri, table):
    job = SparkJob(uri)
    job.task(1, 2)
    winner, other = job.task(1, 2), job.task(3)
    job.commit(winner, other)
    assert ids(table) == [1, 2, 3]
    assert len(files(table)) == 3


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
@pytest.mark.parametrize("point", ["before-sink-commit", "before-begin"])
def test_stopped_before_the_commit(uri, table, kind, point):
    job = kind(uri)
    message = job.task(1)
    with stop_at(point), pytest.raises(Stop):
        job.commit(message)
    job.abort(message)
    assert (table.version, len(files(table))) == (0, 1)
    job.commit(message)
    assert ids(table) == [1]


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
@pytest.mark.parametrize("point", ["after-commit", "after-sink-commit"])
def test_a_lost_reply(uri, table, kind, point):
    """Spark takes the commit for failed, and aborts what is committed: nothing is deleted."""
    job = kind(uri)
    message = job.task(1)
    with stop_at(point), pytest.raises(Stop):
        job.commit(message)
    job.abort(message)
    assert (table.version, ids(table)) == (1, [1])
    job.commit(message)
    assert (table.version, ids(table)) == (1, [1])
    with deltasql.connect(uri) as catalog:
        check_invariants(catalog, "orders")


def test_a_whole_job_that_is_run_again(uri, table):
    for _ in range(2):
        job = SparkJob(uri, commitId="nightly")
        job.commit(job.task(1))
    assert (table.version, ids(table), len(files(table))) == (1, [1], 1)


def test_a_batch_that_is_run_again(uri, table):
    for batch in (0, 1, 1, 0, 1):
        job = SparkBatch(uri)
        job.commit(job.task(batch), batch=batch)
    assert (table.version, ids(table)) == (2, [0, 1])
    job = SparkBatch(uri, txnAppId="another query")
    job.commit(job.task(7), batch=0)
    assert ids(table) == [0, 1, 7]
    note = table.history(1)[0]
    assert note.operation == "STREAMING UPDATE"
    assert note.operation_params == {
        "outputMode": "Append",
        "queryId": "another query",
        "epochId": "0",
    }


def test_a_batch_whose_token_is_forgotten(uri, table):
    """History may be forgotten; how far the query came is known all the same."""
    job = SparkBatch(uri)
    job.commit(job.task(1), batch=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltasql.metastore.registry.SqlCatalog.version_of", lambda *_: None)
        job.commit(job.task(1), batch=3)
    assert ids(table) == [1]


def test_an_empty_batch_makes_no_version(uri, table):
    job = SparkBatch(uri)
    job.commit(job.task(), batch=0)
    assert table.version == 0
    table.append(rows(1))
    job = SparkBatch(uri, overwrite=True)
    job.commit(job.task(), batch=1)
    assert (table.version, ids(table)) == (2, [])


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
def test_another_commit_meanwhile(uri, table, kind):
    job = kind(uri)
    message = job.task(1)
    table.append(rows(100))
    job.commit(message)
    assert ids(table) == [1, 100]
    over = kind(uri, overwrite=True)
    message = over.task(2)
    table.append(rows(101))
    with pytest.raises(CommitConflictError, match=r"error\[DS305\]"):
        over.commit(message, batch=1)
    assert ids(table) == [1, 100, 101]


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
def test_another_schema_meanwhile(uri, table, kind):
    job = kind(uri)
    message = job.task(1)
    table.alter(properties={"delta.constraints.low": "id < 0"})
    with pytest.raises(CommitConflictError):
        job.commit(message)
    assert ids(table) == []


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
def test_a_new_table(uri, tmp_path, kind):
    place = {"location": str(tmp_path / "fresh"), "partitionBy": "day"}
    job = kind(uri, "fresh", **place)
    message = job.task(1)
    with deltasql.connect(uri) as catalog, pytest.raises(TableNotFoundError):
        catalog.table("fresh")
    with stop_at("after-commit"), pytest.raises(Stop):
        job.commit(message)
    with deltasql.connect(uri) as catalog:
        made = catalog.table("fresh")
        assert (made.version, ids(made)) == (0, [1])
        check_invariants(catalog, "fresh")


def test_a_new_table_by_two_jobs(uri, tmp_path):
    """The first commit makes the table; the other job is refused, and none of its rows is there."""
    jobs = [SparkJob(uri, "fresh", location=str(tmp_path / "fresh")) for _ in range(2)]
    messages = [job.task(number) for number, job in enumerate(jobs)]
    jobs[1].commit(messages[1])
    with pytest.raises(TableExistsError, match=r"error\[DS302\]"):
        jobs[0].commit(messages[0])
    with deltasql.connect(uri) as catalog:
        assert ids(catalog.table("fresh")) == [1]


def test_a_stream_whose_first_batch_made_the_table(uri, tmp_path):
    place = {"location": str(tmp_path / "fresh")}
    first = SparkBatch(uri, "fresh", **place)
    first.commit(first.task(1), batch=0)
    for batch in (0, 1):
        job = SparkBatch(uri, "fresh", **place)
        job.commit(job.task(batch + 1), batch=batch)
    with deltasql.connect(uri) as catalog:
        made = catalog.table("fresh")
        assert (made.version, ids(made)) == (1, [1, 2])


def test_a_catalog_recovered_meanwhile(uri, table):
    job = SparkJob(uri)
    message = job.task(1)
    with deltasql.connect(uri) as catalog:
        catalog.new_epoch()
    with pytest.raises(OwnershipError, match="epoch"):
        job.commit(message)


def test_messages_that_do_not_add_up(uri, table):
    job = SparkJob(uri)
    message = job.task(1, 2)
    with pytest.raises(CorruptDataError, match="told nothing"):
        job.commit(message, None)
    object.__setattr__(message, "rows", 3)
    with pytest.raises(CorruptDataError, match=r"3 rows.* 2"):
        job.commit(message)
    assert table.version == 0


def test_a_slow_write_whose_file_vacuum_took(uri, table):
    job = SparkJob(uri)
    message = job.task(1)
    object.__setattr__(job.writer.plan.target, "began_ms", 0)
    files(table)[0].unlink()
    with pytest.raises(CorruptDataError, match="are gone"):
        job.commit(message)
    assert table.version == 0


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
def test_a_disk_that_the_tasks_do_not_share(uri, table, kind):
    job = kind(uri)
    message = job.task(1)
    files(table)[0].unlink()
    with pytest.raises(CorruptDataError, match="are gone"):
        job.commit(message)
    assert table.version == 0


@pytest.mark.parametrize("kind", [SparkJob, SparkBatch])
def test_a_memory_that_the_tasks_do_not_share(uri, tmp_path, kind):
    with pytest.raises(UnsupportedFeatureError, match=r"error\[DS203\].*memory"):
        kind(uri, "far", location=f"memory://bucket/{tmp_path.name}")


def test_rows_that_do_not_fit(uri, tmp_path):
    schema = SCHEMA.set(0, SCHEMA.field(0).with_nullable(False))
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path, schema=schema)
        table.alter(properties={"delta.constraints.low": "id < 10"})
        job = SparkJob(uri)
        with pytest.raises(ConstraintViolationError, match=r"error\[DS206\].*constraint low"):
            job.task(11)
        assert files(table) == []
        assert uri not in repr(job.writer)


def test_whose_batch_it_is_must_be_known(uri, table):
    job = SparkBatch(uri)
    message = job.task(1)
    del job.source.options["txnAppId"]
    with pytest.raises(BadArgumentError, match=r"hint: .*txnAppId"):
        job.commit(message)
    assert table.version == 0


@pytest.mark.parametrize(
    "options",
    [
        {"colour": "red"},
        {"txnAppId": "alone"},
        {"path": "deltasql://sqlite/other.db"},
        {"storageSecrets": "[]"},
        {"storageSecrets": "{"},
        {"versionAsOf": "1"},
        {"partitionBy": "[1"},
        {"saveMode": "append"},
    ],
)
def test_options_that_are_refused(options):
    with pytest.raises(BadArgumentError):
        batch_options({"uri": "deltasql://sqlite/a.db", "table": "t", **options}, overwrite=False)


@pytest.mark.parametrize(
    "name", ["saveMode", "commitId", "txnVersion", "replaceWhere", "dataChange"]
)
def test_options_that_are_not_for_streams(name):
    given = {"uri": "deltasql://sqlite/a.db", "table": "t", name: "1"}
    with pytest.raises(BadArgumentError, match=name):
        stream_options(given, overwrite=True)


def test_partitions_by_either_spelling():
    for text in ("a, b", '["a", "b"]'):
        given = {"uri": "deltasql://sqlite/a.db", "table": "t", "PARTITIONBY": text}
        assert batch_options(given, overwrite=False).write.partition_by == ("a", "b")


def test_another_partitioning_is_refused(uri, table):
    with pytest.raises(SchemaError, match="partitioned by day"):
        SparkJob(uri, partitionBy="name")
