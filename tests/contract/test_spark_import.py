"""An import on Spark writes what the local engine writes, whatever goes wrong on the way."""

import gc
from pathlib import Path

import pytest

import deltasql
from corpora import EXPECTED, needs_corpora
from deltasql.errors import (
    DeltaSqlError,
    MalformedActionError,
    StorageUnavailableError,
    TableImportError,
)
from deltasql.imports.engines import spark as spark_engine
from deltasql.imports.engines import spark as spark_waves
from deltasql.imports.engines.spark import PackedRows, ResultLimits, ResultTooLarge, SparkEngine
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.plan.import_plan import read_plan
from deltasql.imports.read import tasks
from deltasql.imports.read.tasks import CommitTask, LogReader
from deltasql.protocol.log_names import commit_key
from deltasql.storage.local import LocalStore
from deltasql.storage.resolve import StoreOpener
from deltasql.testing import inspect
from histories import History
from import_rows import book_rows
from processes import until
from spark_stores import Opener, Through

pytestmark = [pytest.mark.req("R62", "R63"), pytest.mark.usefixtures("small_tasks")]
VERSIONS = 20
CUT = 3
STANDING_ON_CHECKPOINTS = (
    "deltars__checkpoint_with_partitions",
    "kernel__kernel-pagination-v2-checkpoint-json",
    "kernelrs__v2-checkpoints-json-without-sidecars",
    "kernelrsgold__multi-part-checkpoint",
)


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", CUT)


@pytest.fixture
def engine(spark) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def source(tmp_path) -> Path:
    return History(11, VERSIONS).write(tmp_path / "t")


def do_import(uri, source, **given):
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        done = TableImport(catalog._lazy.create().connection, str(source), "t", **given).run()
        return done, book_rows(catalog, done.row.table_id)


def local_rows(tmp_path, source, **given):
    return do_import(f"deltasql://sqlite/{tmp_path}/local.db", source, **given)[1]


def test_both_engines_write_the_same_rows(catalog_uri, tmp_path, source, engine):
    done, rows = do_import(catalog_uri, source, engine=engine)
    assert done.engine == "spark"
    assert done.counts.versions == VERSIONS
    assert rows == local_rows(tmp_path, source)
    assert len(rows["dl_table_versions"]) == VERSIONS
    assert rows["dl_removed_files"]


@needs_corpora
@pytest.mark.parametrize("name", STANDING_ON_CHECKPOINTS)
def test_both_engines_agree_where_a_history_stands_on_a_checkpoint(tmp_path, tables, engine, name):
    given = {"options": ImportOptions(checkpoint_only=True)}
    source = tables / name / "delta"
    uri = f"deltasql://sqlite/{tmp_path}/spark.db"
    done, rows = do_import(uri, source, engine=engine, **given)
    assert done.counts.state_files
    assert rows == local_rows(tmp_path, source, **given)


@needs_corpora
@pytest.mark.parametrize(
    "every", [pytest.param(3, marks=pytest.mark.verify), pytest.param(1, marks=pytest.mark.soak)]
)
def test_both_engines_agree_on_tables_of_the_corpora(
    catalog_uri, second_uri, tables, engine, every
):
    first = 0 if "sqlite" in catalog_uri else every - 1  # others of them on PostgreSQL
    with deltasql.connect(catalog_uri) as here, deltasql.connect(second_uri) as there:
        for number, name in enumerate(sorted(EXPECTED)[first::every]):
            source, table = tables / name / "delta", f"t{number}"
            mine = outcome(here, source, table)
            other = outcome(there, source, table, engine=engine)
            assert mine == other, name


def outcome(catalog, source, table, **given):
    """Return the rows of an import, or what it says when it is refused."""
    try:
        done = TableImport(catalog._lazy.create().connection, str(source), table, **given).run()
    except DeltaSqlError as error:
        return type(error), error.message, error.context
    return book_rows(catalog, done.row.table_id)


def test_a_commit_that_cannot_be_understood_is_told_as_here(tmp_path, source, engine):
    path = source / commit_key(10)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines, b'{"add":{"path":7}}']))
    told = []
    for given in ({}, {"engine": engine}):
        uri = f"deltasql://sqlite/{tmp_path}/{len(told)}.db"
        with pytest.raises(MalformedActionError) as caught:
            do_import(uri, source, **given)
        error = caught.value
        with deltasql.connect(uri) as catalog:
            catalog.create_if_missing()
            row = inspect(catalog).metastore.table("t")
        told.append(
            (
                type(error),
                error.code,
                error.message,
                error.advice,
                error.context,
                row.current_version,
            )
        )
    assert told[0] == told[1]
    assert told[0][-1] == 8  # whole windows of three before it


@pytest.mark.parametrize("kind", ["unavailable", "broken", "killed"])
def test_what_fails_once_is_done_again_and_loaded_once(catalog_uri, tmp_path, source, engine, kind):
    marks = tmp_path / "marks"
    marks.mkdir()
    for version in range(VERSIONS):  # of the tasks' first objects only
        if version % (3 * CUT):
            (marks / Path(commit_key(version)).name).touch()
    through = Through(engine, Opener(str(source), str(marks), kind))
    _, rows = do_import(catalog_uri, source, engine=through)
    assert rows == local_rows(tmp_path, source)


@pytest.mark.parametrize("kind", ["unavailable", "broken"])
def test_what_fails_always_is_told_by_its_cause(tmp_path, source, engine, kind):
    error = {"unavailable": StorageUnavailableError, "broken": TableImportError}[kind]
    through = Through(engine, Opener(str(source), "/nonexistent", kind))
    with pytest.raises(error) as caught:
        do_import(f"deltasql://sqlite/{tmp_path}/c.db", source, engine=through)
    assert "Traceback" not in caught.value.message
    assert "at org.apache" not in caught.value.message


def waves_of(monkeypatch) -> list[list]:
    """Return a list that gets what came of the tasks of each wave."""
    waves: list[list] = []
    collect = spark_engine._Job._collect

    def recorded(job, wave):
        outcomes = collect(job, wave)
        waves.append(outcomes)
        return outcomes

    monkeypatch.setattr(spark_engine._Job, "_collect", recorded)
    return waves


def packed_bytes(wave) -> list[int]:
    return [len(each.packed) for each in wave if isinstance(each, PackedRows)]


def test_no_wave_returns_more_than_its_limit(tmp_path, source, spark, monkeypatch):
    """A task may be over it, by itself."""
    limits = ResultLimits(wave=60_000, task=1_000_000)
    waves = waves_of(monkeypatch)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    _, rows = do_import(uri, source, engine=SparkEngine(spark, limits))
    assert rows == local_rows(tmp_path, source)
    assert len(waves) > 1
    assert any(len(wave) > 1 for wave in waves)
    for wave in waves:
        assert len(wave) == 1 or sum(packed_bytes(wave)) <= limits.wave


def test_without_a_near_limit_a_wave_has_two_tasks_for_each_core(
    source, engine, spark, monkeypatch
):
    waves = waves_of(monkeypatch)
    reader, found = reader_and_tasks(source, StoreOpener(str(source), {}, {}))
    assert len(list(engine.run(reader, found))) == VERSIONS
    cores = spark.context.defaultParallelism
    assert [len(wave) for wave in waves[:2]] == [cores, 2 * cores]


def test_rows_that_have_no_room_in_their_wave_are_read_again_alone(source, spark, monkeypatch):
    """The sizes of commits in a listing may be lower than what their rows take."""
    waves = waves_of(monkeypatch)
    monkeypatch.setattr(CommitTask, "size", 0)
    monkeypatch.setattr(spark_waves, "_TASK_OVERHEAD", 1)
    limits = ResultLimits(wave=400, task=1_000_000)
    reader, found = reader_and_tasks(source, StoreOpener(str(source), {}, {}))
    windows = list(SparkEngine(spark, limits).run(reader, found))
    assert [rows.first for rows in windows] == list(range(VERSIONS))
    planned = [wave for wave in waves if len(wave) > 1]
    assert all(isinstance(each, ResultTooLarge) for wave in planned for each in wave)
    assert sum(len(packed_bytes(wave)) for wave in waves) == len(waves) - len(planned) == VERSIONS


def test_a_task_whose_rows_are_over_the_limit_is_refused_by_the_name_of_the_setting(
    tmp_path, source, spark
):
    large = SparkEngine(spark, ResultLimits(wave=250, task=1_000))
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with pytest.raises(TableImportError, match=r"spark\.driver\.maxResultSize") as caught:
        do_import(uri, source, engine=large)
    assert caught.value.message.startswith("The rows of versions 18 to 19 take ")
    assert "`engine='local'`" in caught.value.advice
    with deltasql.connect(uri) as catalog:
        TableImport(inspect(catalog).connection, str(source), "t").run()
        rows = book_rows(catalog, catalog.table("t").table_id)
    assert rows == local_rows(tmp_path, source)


def reader_and_tasks(source, opener):
    commits = read_plan(LocalStore(str(source))).commits
    return LogReader(opener), [CommitTask(commits[v : v + 1]) for v in range(len(commits))]


def test_rows_come_in_the_order_of_the_tasks(source, engine):
    reader, found = reader_and_tasks(source, StoreOpener(str(source), {}, {}))
    assert [rows.first for rows in engine.run(reader, iter(found))] == list(range(VERSIONS))
    assert list(engine.run(reader, [])) == []


def test_a_run_that_nobody_wants_any_more_is_cancelled(tmp_path, source, engine, spark):
    """The second wave hangs: it ends because the consumer does, not because it is done."""
    marks = tmp_path / "marks"
    marks.mkdir()
    for version in (0, 1):
        (marks / Path(commit_key(version)).name).touch()
    reader, found = reader_and_tasks(source, Opener(str(source), str(marks), "stuck"))
    run = engine.run(reader, found)
    assert next(run).first == 0
    until(lambda: len(list(marks.iterdir())) > 4)
    run.close()
    gc.collect()
    assert list(spark.context.statusTracker().getActiveJobsIds()) == []
