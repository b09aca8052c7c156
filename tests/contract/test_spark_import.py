"""An import on Spark writes what the local engine writes, whatever goes wrong on the way."""

import contextlib
import dataclasses
import gc
from pathlib import Path

import pytest

import deltasql
from corpora import EXPECTED, needs_corpora
from deltasql.client.imports import ImportOptions, TableImport
from deltasql.errors import (
    DeltaSqlError,
    MalformedActionError,
    StorageUnavailableError,
    TableImportError,
)
from deltasql.importer import tasks
from deltasql.importer.read_plan import read_plan
from deltasql.importer.tasks import CommitTask, LogReader
from deltasql.jobs.engine import SparkEngine
from deltasql.jobs.staging import FolderStaging
from deltasql.protocol.files import commit_key
from deltasql.storage.local import LocalStore
from deltasql.storage.resolve import StoreOpener
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
def engine(spark, tmp_path) -> SparkEngine:
    (tmp_path / "stages").mkdir()
    return SparkEngine(spark, FolderStaging(tmp_path / "stages"))


@pytest.fixture
def source(tmp_path) -> Path:
    return History(11, VERSIONS).write(tmp_path / "t")


def do_import(uri, source, **given):
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        done = TableImport(catalog._lazy.create(), str(source), "t", **given).run()
        return done, book_rows(catalog, done.row.table_id)


def require_nothing_left(engine):
    assert list(engine.staging.root.iterdir()) == []


def local_rows(tmp_path, source, **given):
    return do_import(f"deltasql://sqlite/{tmp_path}/local.db", source, **given)[1]


def test_both_engines_write_the_same_rows(catalog_uri, tmp_path, source, engine):
    done, rows = do_import(catalog_uri, source, engine=engine)
    assert done.engine == "spark"
    assert done.counts.versions == VERSIONS
    assert rows == local_rows(tmp_path, source)
    assert len(rows["dl_table_versions"]) == VERSIONS
    assert rows["dl_removed_files"]
    require_nothing_left(engine)


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
        done = TableImport(catalog._lazy.create(), str(source), table, **given).run()
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
            row = catalog._session.book.table("t")
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
    require_nothing_left(engine)


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
    require_nothing_left(engine)


@pytest.mark.parametrize("kind", ["unavailable", "broken"])
def test_what_fails_always_is_told_by_its_cause(tmp_path, source, engine, kind):
    error = {"unavailable": StorageUnavailableError, "broken": TableImportError}[kind]
    through = Through(engine, Opener(str(source), "/nonexistent", kind))
    with pytest.raises(error) as caught:
        do_import(f"deltasql://sqlite/{tmp_path}/c.db", source, engine=through)
    assert "Traceback" not in caught.value.message
    assert "at org.apache" not in caught.value.message
    require_nothing_left(engine)


@dataclasses.dataclass(frozen=True)
class Losing:
    """Folders from which the first thing that is left by each task gets lost."""

    root: Path
    lost: list

    @contextlib.contextmanager
    def open(self):
        with FolderStaging(self.root).open() as stage:
            yield _LosingStage(stage, self.lost)


@dataclasses.dataclass(frozen=True)
class _LosingStage:
    stage: object
    lost: list

    @property
    def for_tasks(self):
        return self.stage.for_tasks

    def take(self, staged):
        if staged.task not in self.lost:
            self.lost.append(staged.task)
            path = Path(self.stage.folder) / f"{staged.task}-{staged.attempt}.rows"
            path.write_bytes(path.read_bytes()[:-1])
        return self.stage.take(staged)

    def reopen(self):
        self.stage.reopen()


def test_what_gets_lost_on_the_stage_is_read_again(catalog_uri, tmp_path, source, engine):
    staging = Losing(engine.staging.root, [])
    losing = dataclasses.replace(engine, staging=staging)
    _, rows = do_import(catalog_uri, source, engine=losing)
    assert staging.lost == list(range(len(staging.lost)))
    assert len(staging.lost) == -(-VERSIONS // CUT)
    assert rows == local_rows(tmp_path, source)
    require_nothing_left(engine)


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
    require_nothing_left(engine)
    assert list(spark.context.statusTracker().getActiveJobsIds()) == []
