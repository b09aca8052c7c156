"""Behind a real PgBouncer everything works in session mode, and transaction mode is refused."""

import os
import subprocess
import threading
import time

import psycopg
import pytest

import deltasql
from builders import SCHEMA, ids, rows
from deltasql.database import postgres_errors
from deltasql.database.postgres import PostgresDatabase
from deltasql.errors import PoolModeError
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from deltasql.uri import parse_uri
from readers import require
from server_process import Unavailable, free_port, tool

CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
server_round_robin = {round_robin}
default_pool_size = {pool_size}
max_client_conn = 200
"""


@pytest.fixture
def pooled(postgres_server, tmp_path_factory):
    """Start PgBouncers of any mode before the tests' server; return a catalog's URI through one."""
    try:
        program = tool("pgbouncer")
    except Unavailable as error:
        require("pgbouncer", str(error))
    started = []

    def start(mode, round_robin=0, pool_size=20):
        port = free_port()
        folder = tmp_path_factory.mktemp("pgbouncer")
        config = folder / "pgbouncer.ini"
        config.write_text(
            CONFIG.format(
                server=postgres_server.port,
                port=port,
                mode=mode,
                round_robin=round_robin,
                pool_size=pool_size,
            )
        )
        # it refuses to run as root, and nobody may not read below pytest's folder
        drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        command = [*(drop if os.geteuid() == 0 else []), str(program), "/dev/stdin"]
        with config.open("rb") as given, (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=given, stdout=log, stderr=log, cwd="/")
        started.append(process)
        database = postgres_server.create_database_name()
        wait_for(port, database, process, folder / "log")
        return f"deltasql://postgres/{database}/deltasql?host=127.0.0.1&port={port}&user=postgres"

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def wait_for(port, database, process, log):
    for _ in range(200):
        assert process.poll() is None, log.read_text()
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname={database}").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(log.read_text())


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("round_robin", [0, 1])
def test_a_pool_that_shares_sessions_is_refused(pooled, mode, round_robin):
    uri = pooled(mode, round_robin)
    port = uri.partition("port=")[2].partition("&")[0]
    for _ in range(3):
        with pytest.raises(PoolModeError, match=f"127.0.0.1:{port} is a connection pool"):
            deltasql.connect(uri).close()
    database = uri.split("/")[3]
    dsn = f"host=127.0.0.1 port={port} user=postgres dbname={database}"
    with psycopg.connect(dsn, autocommit=True) as other:  # its sessions were left as they were
        assert "deltasql" not in other.execute("show search_path").fetchone()[0]


def test_a_pool_with_busy_clients_is_refused(pooled):
    uri = pooled("transaction")
    port, database = uri.partition("port=")[2].partition("&")[0], uri.split("/")[3]
    stop, worked = threading.Event(), []

    def work():
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname={database}"
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
            while not stop.is_set():
                worked.append(connection.execute("select 1").fetchone())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            with pytest.raises(PoolModeError):
                deltasql.connect(uri).close()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert worked


@pytest.mark.parametrize("mirror", ["inline", "worker"])
def test_a_pool_in_session_mode_works(pooled, tmp_path, mirror):
    uri = pooled("session")
    settings = Settings(mirror=MirrorSettings(mode=mirror))
    with deltasql.connect(uri, settings=settings) as catalog:
        table = catalog.create_table("orders", location=str(tmp_path / "lake"), schema=SCHEMA)

        def append(number):
            with deltasql.connect(uri, settings=settings) as mine:
                for each in range(5):
                    mine.table("orders").append(rows(number * 10 + each))

        threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with catalog.transaction() as tx:
            tx.table("orders").append(rows(100))
        inspect(catalog).engine.catch_up(table.table_id, seconds=30)
        assert ids(table) == sorted([*range(5), *range(10, 15), *range(20, 25), 100])
        check_invariants(catalog, "orders")


def test_clients_that_fill_a_pool_at_once_do_not_wait_for_each_other(pooled, monkeypatch):
    """Each keeps a session, and none is left for the second look of any."""
    monkeypatch.setattr(postgres_errors, "_PATIENCE_S", 0.5)
    uri = pooled("session", pool_size=3)
    ready, opened = threading.Barrier(3), []

    def work():
        ready.wait()
        found = PostgresDatabase(parse_uri(uri).conninfo(), "deltasql")
        opened.append(found)
        assert found.login() == "postgres"

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(opened) == 3
    for one in opened:
        one.close()
