"""A long log is read by several processes: the same rows, and no trouble of theirs is lost."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import deltasql
from builders import NO_MIRROR
from deltasql.errors import MalformedActionError, TableImportError
from deltasql.imports.engines import local as engines
from deltasql.imports.engines.child_process import ReaderProcess
from deltasql.imports.engines.local import LocalEngine
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.plan.import_plan import read_plan
from deltasql.imports.read import tasks
from deltasql.imports.read.tasks import LogReader, cut_tasks
from deltasql.protocol.log_names import commit_key
from deltasql.storage.local import LocalStore
from deltasql.storage.resolve import StoreOpener
from deltasql.testing import inspect
from histories import History
from import_rows import book_rows
from processes import is_running, until
from spark_stores import PATIENCE, Opener

pytestmark = [pytest.mark.req("R62", "R63"), pytest.mark.usefixtures("small_tasks")]
VERSIONS = 20
CUT = 3


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", CUT)


@pytest.fixture
def source(tmp_path) -> Path:
    return History(11, VERSIONS).write(tmp_path / "t")


@pytest.fixture
def started(monkeypatch) -> list[ReaderProcess]:
    """The processes that were started, as they come."""
    found: list[ReaderProcess] = []

    class Noted(ReaderProcess):
        def __init__(self, reader: LogReader) -> None:
            super().__init__(reader)
            found.append(self)

    monkeypatch.setattr(engines, "ReaderProcess", Noted)
    return found


def do_import(uri, source, cores, **options):
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        catalog.create_if_missing()
        call = TableImport(
            inspect(catalog).connection,
            str(source),
            "t",
            ImportOptions(**options),
            LocalEngine(cores),
        )
        done = call.run()
        return book_rows(catalog, done.row.table_id)


def is_gone(process: ReaderProcess) -> bool:
    return not is_running(process._process.pid)


def reader_of(source) -> LogReader:
    opener = StoreOpener.of(str(source), {}, {})
    return LogReader(opener, elsewhere=opener)


def commit_tasks(source):
    return list(cut_tasks(read_plan(LocalStore(str(source))).commits))


def test_processes_give_the_rows_of_a_thread(catalog_uri, tmp_path, source, started):
    rows = do_import(catalog_uri, source, 2)
    assert len(started) == 2
    assert all(map(is_gone, started))
    assert rows == do_import(f"deltasql://sqlite/{tmp_path}/thread.db", source, 1)
    assert len(rows["dl_table_versions"]) == VERSIONS


def test_a_short_log_starts_none(tmp_path, started):
    short = History(11, (engines.MANY_TASKS - 1) * CUT).write(tmp_path / "short")
    do_import(f"deltasql://sqlite/{tmp_path}/c.db", short, 2)
    assert started == []


def test_a_store_that_only_this_process_has_starts_none(tmp_path, source, started):
    with deltasql.connect(
        f"deltasql://sqlite/{tmp_path}/c.db", settings=NO_MIRROR, wrap_store=lambda store: store
    ) as catalog:
        catalog.create_if_missing()
        TableImport(
            catalog._lazy.create().connection, str(source), "t", engine=LocalEngine(2)
        ).run()
    assert started == []


def test_a_corrupt_commit_is_told_as_ever_and_what_came_before_stays(tmp_path, source, started):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    place = source / commit_key(4 * CUT)
    right = place.read_bytes()
    place.write_bytes(b'{"add": 7}\n')
    with pytest.raises(MalformedActionError, match=f"version {4 * CUT}, line 1"):
        do_import(uri, source, 2)
    assert started
    assert all(map(is_gone, started))
    place.write_bytes(right)
    rows = do_import(uri, source, 2, resume=True)
    assert rows == do_import(f"deltasql://sqlite/{tmp_path}/whole.db", source, 1)


def test_a_process_that_is_killed_is_told_in_one_line(source):
    with ReaderProcess(reader_of(source)) as process:
        first, second = commit_tasks(source)[:2]
        process.do(first)
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(TableImportError, match="has ended with exit code -9") as caught:
            process.do(second)
    assert "`resume=True`" in caught.value.advice


def test_whoever_stops_taking_waits_for_nobody(tmp_path, source, started):
    """A task that is stuck is ended with its process."""
    marks = tmp_path / "marks"
    marks.mkdir()
    for version in set(range(VERSIONS)) - {CUT}:
        (marks / Path(commit_key(version)).name).touch()
    reader = LogReader(LocalStore, elsewhere=Opener(str(source), str(marks), "stuck"))
    rows = LocalEngine(2).run(reader, commit_tasks(source))
    assert next(rows).first == 0
    until((marks / Path(commit_key(CUT)).name).exists)
    begun = time.monotonic()
    rows.close()
    assert time.monotonic() - begun < PATIENCE / 2
    assert all(map(is_gone, started))


def test_readers_end_when_whoever_asked_is_killed(source):
    program = """
        import sys, time
        from deltasql.imports.engines.child_process import ReaderProcess
        from deltasql.imports.read.tasks import LogReader
        from deltasql.storage.resolve import StoreOpener
        process = ReaderProcess(LogReader(StoreOpener.of(sys.argv[1], {}, {})))
        print(process._process.pid, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        reader = int(asking.stdout.readline())
        assert is_running(reader)
        asking.kill()
    until(lambda: not is_running(reader))


def test_a_main_module_without_a_guard_is_not_run_again(tmp_path, source):
    """The processes are none of multiprocessing's, which would run it."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import deltasql
            from deltasql.imports.job import TableImport
            from deltasql.imports.read import tasks
            from deltasql.imports.engines.local import LocalEngine
            tasks.TASK_VERSIONS = {CUT}
            print("running")
            with deltasql.connect("deltasql://sqlite/{tmp_path}/c.db") as catalog:
                session = catalog._lazy.create().connection
                TableImport(session, {str(source)!r}, "t", engine=LocalEngine(2)).run()
            """
        ),
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "running\n", "")
