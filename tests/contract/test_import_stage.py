"""What tasks leave in PostgreSQL is taken whole or not at all, and nobody's rows stay behind."""

import pickle
import subprocess
import sys
import threading

import psycopg
import pytest

import deltasql
from deltasql.catalog import import_stage
from deltasql.catalog.dialects.postgres_opener import PostgresOpener
from deltasql.errors import BadArgumentError
from deltasql.jobs.database_staging import DatabaseStaging
from deltasql.jobs.staging import StageGoneError

pytestmark = pytest.mark.req("R62", "R63")


@pytest.fixture
def uri(postgres_server) -> str:
    return postgres_server.uri(postgres_server.create_database_name())


@pytest.fixture
def database(uri):
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        yield catalog._session.book.database


def staged(database) -> list[tuple]:
    with database.read() as work:
        found = work.connection.execute(b"select task, attempt, chunk from dl_import_stage")
        return sorted(found.fetchall())


def test_bytes_travel_in_chunks_and_are_taken_once(database, monkeypatch):
    monkeypatch.setattr(import_stage, "CHUNK_BYTES", 10)
    packed = bytes(range(256)) * 2
    with DatabaseStaging(database).open() as stage:
        tasks = pickle.loads(pickle.dumps(stage.for_tasks))
        first, second = tasks.put(4, 1, packed), tasks.put(4, 2, packed[::-1])
        assert len(staged(database)) == 2 * 52 + 1
        assert stage.take(second) == packed[::-1]
        assert staged(database) == [(-1, 0, 0)]
        with pytest.raises(StageGoneError, match="task 4"):
            stage.take(first)
    assert staged(database) == []


def test_a_lost_chunk_is_noticed(database, monkeypatch):
    monkeypatch.setattr(import_stage, "CHUNK_BYTES", 10)
    with DatabaseStaging(database).open() as stage:
        left = stage.for_tasks.put(0, 1, b"x" * 35)
        with database.write() as work:
            work.connection.execute(b"delete from dl_import_stage where chunk = 2")
        with pytest.raises(StageGoneError, match="missing"):
            stage.take(left)


def test_a_stage_that_a_crash_has_emptied_can_be_opened_again(database):
    with DatabaseStaging(database).open() as stage:
        with database.write() as work:
            work.connection.execute(b"delete from dl_import_stage")
        with pytest.raises(StageGoneError, match="not open"):
            stage.for_tasks.put(0, 1, b"rows")
        stage.reopen()
        assert stage.take(stage.for_tasks.put(0, 2, b"rows")) == b"rows"


def test_a_late_task_leaves_nothing_behind_the_one_who_cleans_up(database, uri):
    with DatabaseStaging(database).open() as stage:
        stage.for_tasks.put(0, 1, b"never taken")
        late = stage.for_tasks
    with pytest.raises(StageGoneError, match="not open"):
        late.put(0, 2, b"late")
    assert staged(database) == []


def test_cleaning_up_waits_for_a_task_that_is_writing(database):
    book = import_stage.ImportStage(database, "6b1f9c1e-6b55-4d0a-9c3d-0123456789ab")
    book.open()
    with database.write() as work:
        assert work.rows("share_import_stage", import_id=book.import_id)
        cleaner = threading.Thread(target=book.close)
        cleaner.start()
        named = {"import_id": book.import_id, "task": 1, "attempt": 1, "chunk": 0}
        work.run("insert_import_stage", **named, payload=b"x")
    cleaner.join(60)
    assert staged(database) == []


def test_what_a_killed_run_has_left_is_swept_and_a_living_one_is_not(database, uri):
    program = (
        "import os, signal, deltasql\n"
        "from deltasql.jobs.database_staging import DatabaseStaging\n"
        f"database = deltasql.connect({uri!r})._session.book.database\n"
        "with DatabaseStaging(database).open() as stage:\n"
        "    stage.for_tasks.put(7, 1, b'lost')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with DatabaseStaging(database).open() as living:
        mine = living.for_tasks.put(1, 1, b"mine")
        subprocess.run([sys.executable, "-c", program], check=False)
        assert (7, 1, 0) in staged(database)
        swept = wait_for_sweep(database)
        assert (7, 1, 0) not in swept
        assert living.take(mine) == b"mine"
    assert staged(database) == []


def wait_for_sweep(database) -> list[tuple]:
    """Sweep until the server has noticed that the killed process is gone."""
    found = staged(database)
    for _ in range(500):
        import_stage.sweep_stages(database)
        found = staged(database)
        if (7, 1, 0) not in found:
            break
        threading.Event().wait(0.02)
    return found


def test_what_opens_the_database_elsewhere_is_not_shown(postgres_server):
    name = postgres_server.create_database_name()
    secret = postgres_server.uri(name) + "&password=hush-hush"
    with deltasql.connect(secret) as catalog:
        catalog.create_if_missing()
        opener = PostgresOpener.of(catalog._session.book.database)
        assert "hush" not in repr(opener) + str(opener)
        assert "hush-hush" in opener.conninfo.reveal()
        with DatabaseStaging(catalog._session.book.database).open() as stage:
            assert "hush" not in repr(stage) + repr(stage.for_tasks)
        copied = pickle.loads(pickle.dumps(opener))()
        assert copied.rows("catalog_row") == catalog._session.book.database.rows("catalog_row")
        copied.close()


def test_sqlite_has_no_stage_for_others(tmp_path):
    with (
        deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog,
        pytest.raises(BadArgumentError, match="sqlite"),
    ):
        catalog.create_if_missing()
        DatabaseStaging.of(catalog._session.book.database)


def test_the_stage_is_not_logged(uri, database):
    with psycopg.connect(PostgresOpener.of(database).conninfo.reveal()) as connection:
        found = connection.execute(
            "select relpersistence from pg_class where relname = 'dl_import_stage'"
        )
        assert found.fetchall() == [("u",)]
