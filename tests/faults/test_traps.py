"""The measured traps stay closed. Each test fails without the cure it names."""

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, paths, rows
from deltasql.database import sqlite as parts
from deltasql.errors import CommitConflictError, TableStateError
from deltasql.uri import parse_uri


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def pg_catalog(postgres_server):
    uri = postgres_server.uri(postgres_server.create_database_name())
    with deltasql.connect(uri, settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened, uri


def _run(code: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_with_a_catalog_has_one_sqlite_library(tmp_path):
    """Cure: all of SQLite goes through ADBC; the standard library's module is never loaded."""
    out = _run(
        """
        import sys, deltasql, pyarrow as pa
        catalog = deltasql.connect(f"deltasql://sqlite/{sys.argv[1]}/c.db")
        schema = pa.schema([("id", pa.int64())])
        table = catalog.create_table("t", location=sys.argv[1] + "/t", schema=schema)
        table.append(pa.table({"id": [1]}))
        table.scan(where="id = 1").to_arrow()
        table.history(); table.detail(); catalog.tables()
        print("_sqlite3" in sys.modules or "sqlite3" in sys.modules)
        maps = {line.split()[-1] for line in open("/proc/self/maps") if "sqlite" in line}
        print(len(maps), *maps)
        """,
        str(tmp_path),
    )
    loaded, libraries = out.splitlines()
    assert loaded == "False"
    assert libraries.startswith("1 ")


def test_two_sqlite_libraries_on_one_file_would_lose_locks(tmp_path):
    """The trap itself: a close by the second library drops the first one's POSIX locks."""
    out = _run(
        """
        import os, sqlite3, subprocess, sys
        import adbc_driver_sqlite.dbapi as adbc
        file = sys.argv[1] + "/x.db"
        one = adbc.connect(file, autocommit=True)
        cursor = one.cursor()
        for text in ("pragma journal_mode=wal", "create table t(v int)", "begin immediate"):
            cursor.execute(text)
        try_lock = (
            "import sqlite3,sys; c=sqlite3.connect(sys.argv[1],timeout=0,isolation_level=None)\\n"
            "try: c.execute('begin immediate'); print('taken')\\n"
            "except sqlite3.OperationalError: print('refused')"
        )
        command = [sys.executable, "-c", try_lock, file]
        ask = lambda: subprocess.check_output(command, text=True).strip()
        first = ask()
        other = sqlite3.connect(file)
        other.execute("select count(*) from t").fetchall()
        other.close()
        print(first, ask())
        os._exit(0)
        """,
        str(tmp_path),
    )
    assert out.split() == ["refused", "taken"]


def test_an_overwrite_that_waited_behind_an_append_removes_its_file_too(pg_catalog, tmp_path):
    """Cure: lock in a statement of its own, then check by statements that see the winner."""
    catalog, uri = pg_catalog
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    found = parse_uri(uri)
    with psycopg.connect(found.conninfo()) as blocker:
        lock = f"select 1 from {found.schema}.dl_tables where table_id = %s for update"
        blocker.execute(lock, [table.table_id])
        with (
            deltasql.connect(uri, settings=NO_MIRROR) as second,
            ThreadPoolExecutor(2) as pool,
        ):
            append = pool.submit(table.append, rows(2))
            _wait_for_lock_waiters(found.conninfo(), 1)
            overwrite = pool.submit(_overwrite, second.table("orders"))
            _wait_for_lock_waiters(found.conninfo(), 2)
            blocker.rollback()
            appended, overwritten = append.result(60), overwrite.result(60)
    assert appended == 2
    if isinstance(overwritten, CommitConflictError):
        assert ids(table) == [1, 2]
    else:
        assert ids(table) == [9]


def _overwrite(table: deltasql.Table) -> object:
    try:
        return table.overwrite(rows(9))
    except CommitConflictError as error:
        return error


def _wait_for_lock_waiters(conninfo: str, count: int) -> None:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with psycopg.connect(conninfo, autocommit=True) as watcher:
        for _ in range(600):
            if watcher.execute(query).fetchone()[0] >= count:
                return
            threading.Event().wait(0.05)
    pytest.fail(f"{count} sessions never came to wait for a lock")


def test_a_blind_append_after_overwrite_schema_is_refused(catalog, tmp_path):
    """Cure: blind appends are guarded by the metadata's version in the locked row."""
    table = a_table(catalog, tmp_path)
    with pytest.raises(CommitConflictError, match="metadata"), catalog.transaction() as tx:
        tx.table("orders").append(rows(1))
        table.overwrite(rows(2).drop_columns(["name"]), schema_mode="overwrite")
    assert ids(table) == [2]


@pytest.mark.parametrize("end", ["detach", "drop"])
def test_a_blind_append_after_the_end_of_a_table_is_refused(catalog, tmp_path, end):
    """Cure: the state is checked under the lock, not when the append was prepared."""
    table = a_table(catalog, tmp_path)
    with pytest.raises(TableStateError), catalog.transaction() as tx:
        tx.table("orders").commit([an_add("late")])
        table.detach() if end == "detach" else catalog.drop("orders", force=True)
    with pytest.raises(TableStateError):
        table.commit([an_add("later")])


@pytest.mark.parametrize("cores", [1, 3])
def test_a_snapshot_read_while_commits_go_on_is_one_version(
    catalog, catalog_uri, tmp_path, monkeypatch, cores
):
    """Cure: every statement of a snapshot is filtered by its version.

    With several cores SQLite's rows are read in parts, each in a state of its own.
    """
    monkeypatch.setattr(parts, "_FEWEST_NUMBERS", 1)
    monkeypatch.setattr(parts, "usable_cores", lambda: cores)
    table = a_table(catalog, tmp_path)
    table.commit([an_add("pair-0-left"), an_add("pair-0-right")])
    stop = threading.Event()
    failures: list[str] = []

    def swap() -> None:
        with deltasql.connect(catalog_uri, settings=NO_MIRROR) as writer:
            other = writer.table("orders")
            number = 0
            while not stop.is_set() and number < 400:
                old = [an_add(f"pair-{number}-{side}") for side in ("left", "right")]
                number += 1
                new = [an_add(f"pair-{number}-{side}") for side in ("left", "right")]
                removes = [{"remove": {"path": add.path, "dataChange": True}} for add in old]
                other.commit([*new, *removes])

    writer = threading.Thread(target=swap)
    writer.start()
    try:
        for _ in range(120):
            snapshot = table.snapshot()
            whole = set(snapshot.files(["path"]).column("path").to_pylist())
            filtered = set(snapshot.files(["path"], where="id >= 0").column("path").to_pylist())
            numbers = {path.split("-")[1] for path in whole}
            if len(whole) != 2 or len(numbers) != 1 or filtered != whole:
                failures.append(f"{snapshot.version}: {whole} {filtered}")
    finally:
        stop.set()
        writer.join(60)
    assert failures == []
    assert paths(table, version=1) == {"pair-0-left", "pair-0-right"}
