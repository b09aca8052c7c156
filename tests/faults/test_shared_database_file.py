"""A SQLite catalog that others open too: no acknowledged commit is lost, whoever closes the file.

Closing any descriptor of a file cancels the process's POSIX locks on it. Users do that without
knowing: they look into the catalog with Python's `sqlite3` or with DuckDB, in the process that has
it open; they fork; they restore a backup under a living process.
"""

import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import duckdb
import duckdb_extension_sqlite_scanner
import pytest

import deltasql
import processes
from builders import NO_MIRROR, a_table, an_add
from deltasql.errors import CatalogReplacedError, CommitUnknownError, DeltaSqlError
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R2")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "catalog.db"


@pytest.fixture
def uri(file):
    return f"deltasql://sqlite/{file}"


def _peek_with_sqlite3(file) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("select count(*) from dl_history").fetchall()
    connection.close()


def _peek_with_duckdb(file) -> None:
    folder = Path(duckdb_extension_sqlite_scanner.__file__).parent
    extension = next(folder.rglob("sqlite_scanner.duckdb_extension"))
    with duckdb.connect() as connection:
        connection.execute(f"load '{extension}'")
        query = "select count(*) from sqlite_scan(?, 'dl_table_versions')"
        connection.execute(query, [str(file)]).fetchall()


PEEKS = {"sqlite3": _peek_with_sqlite3, "duckdb": _peek_with_duckdb}


def _append_elsewhere(uri: str, worker: str) -> dict[str, int]:
    return processes.finish(processes.start("append_many", uri, "orders", worker, "1", "off"))


@pytest.mark.parametrize("peek", PEEKS.values(), ids=PEEKS.keys())
def test_a_look_by_another_library_in_the_process_loses_no_commit(uri, file, tmp_path, peek):
    acknowledged = {}
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        peek(file)
        acknowledged |= _append_elsewhere(uri, "b")
        acknowledged["a-0"] = table.commit([an_add("a-0")], commit_id="a-0")
        acknowledged |= _append_elsewhere(uri, "c")
        peek(file)
        acknowledged["a-1"] = table.commit([an_add("a-1")], commit_id="a-1")
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        assert sorted(acknowledged.values()) == [1, 2, 3, 4]
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_the_shell_in_another_process_never_removes_a_log_that_is_in_use(uri, file, tmp_path):
    look = (
        "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); "
        "c.execute('select 1 from dl_tables').fetchall(); c.close()"
    )
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        _peek_with_sqlite3(file)
        log = Path(f"{file}-wal").stat().st_ino
        subprocess.run([sys.executable, "-c", look, str(file)], check=True)
        assert Path(f"{file}-wal").stat().st_ino == log
        acknowledged = {"a": table.commit([an_add("a")], commit_id="a")}
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_two_writers_never_commit_at_once_though_their_locks_were_cancelled(uri, file, tmp_path):
    """A look cancels the lock of an open transaction; a second process waits all the same."""
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with inspect(catalog).database.write():
                entered.set()
                leave.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        assert entered.wait(60)
        _peek_with_sqlite3(file)
        other = processes.start("append_many", uri, "orders", "b", "1", "off")
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(3)
        leave.set()
        holder.join()
        acknowledged = processes.finish(other)
        acknowledged["a"] = table.commit([an_add("a")], commit_id="a")
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_after_the_last_close_the_database_file_alone_is_the_whole_catalog(uri, file, tmp_path):
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path).commit([an_add("a")], commit_id="a")
    copy = tmp_path / "copy.db"
    shutil.copy(file, copy)
    with deltasql.connect(f"deltasql://sqlite/{copy}", settings=NO_MIRROR) as catalog:
        assert next(entry.commit_id for entry in catalog.table("orders").history()) == "a"


def test_a_backup_moved_over_an_open_database_is_refused_and_loses_nothing(uri, file, tmp_path):
    backup = tmp_path / "backup.db"
    catalog = deltasql.connect(uri, settings=NO_MIRROR)
    table = a_table(catalog, tmp_path)
    with sqlite3.connect(file) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    target.close()
    source.close()
    table.commit([an_add("a")], commit_id="a")
    backup.replace(file)
    with pytest.raises(CatalogReplacedError, match=str(file)) as error:
        table.commit([an_add("b")], commit_id="b")
    assert "-wal" in error.value.hint
    with pytest.raises(CatalogReplacedError):
        deltasql.connect(uri, settings=NO_MIRROR)
    catalog.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink()
    with deltasql.connect(uri, settings=NO_MIRROR) as restored:
        assert restored.table("orders").version == 0


def test_a_removed_database_file_is_an_error_not_a_commit(uri, file, tmp_path):
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        file.unlink()
        with pytest.raises(DeltaSqlError):
            table.commit([an_add("a")], commit_id="a")
        assert not file.exists()


def test_a_file_replaced_during_a_commit_is_an_unknown_outcome(uri, file, tmp_path):
    catalog = deltasql.connect(uri, settings=NO_MIRROR)
    table = a_table(catalog, tmp_path)
    committer = inspect(catalog).metastore.committer
    ticks = itertools.count(step=10.0)
    committer.sleep, committer.monotonic = (lambda _: None), (lambda: float(next(ticks)))

    def replace(point: str) -> None:
        if point == "before-commit":
            shutil.copy(file, tmp_path / "other.db")
            (tmp_path / "other.db").replace(file)

    with hooked(replace), pytest.raises(CommitUnknownError):
        table.commit([an_add("a")], commit_id="a")
    catalog.close()


@pytest.mark.parametrize("point", ["after-sqlite-commit:9", "before-sqlite-checkpoint:1"])
def test_a_writer_killed_at_a_point_leaves_no_lock_and_loses_nothing(uri, tmp_path, point):
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": point}
        writer = processes.start("append_telling", uri, "orders", "b", env=env)
        out, err = writer.communicate(timeout=120)
        assert writer.returncode == -signal.SIGKILL, err
        told = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
        acknowledged = dict(told)
        assert len(acknowledged) == len(told) > 0
        acknowledged["a"] = table.commit([an_add("a")], commit_id="a")
        check_invariants(catalog, "orders", acknowledged=acknowledged)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_only_read_reads_and_is_refused_to_write(tmp_path):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        uri = f"deltasql://sqlite/{folder}/catalog.db"
        with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
            a_table(catalog, tmp_path).commit([an_add("a")])
            version, code, message = processes.finish(processes.start("write_as_nobody", uri))
            assert (version, code) == (1, "DS306")
            assert "may not write" in message
            assert catalog.table("orders").version == 1
