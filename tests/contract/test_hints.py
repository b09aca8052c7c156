"""A worker learns of commits by a sign, not by its poll; and loses nothing where signs do."""

import threading
import time
from datetime import timedelta

import psycopg
import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add
from deltasql.database.postgres import channel_of
from deltasql.mirror.engine import Backoff
from deltasql.mirror.worker.reconciler import ReconciliationConfig
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

WORKER = Settings(mirror=MirrorSettings(mode="worker", verify_interval=timedelta(0)))
# a poll that no test waits for
BY_SIGNS = ReconciliationConfig(interval=timedelta(hours=1), poll=timedelta(hours=1))
BY_POLL = ReconciliationConfig(interval=timedelta(hours=1), poll=timedelta(seconds=0.2))


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, settings=WORKER) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def serve(catalog_uri):
    """Return a function that serves as a worker, with connections of its own, to the end."""
    stop, threads, catalogs = threading.Event(), [], []

    def start(config):
        catalogs.append(deltasql.connect(catalog_uri, settings=WORKER))
        worker = catalogs[-1].mirror.reconciler(config)
        worker.wakes.backoff = Backoff(0.2, 0.2)
        threads.append(threading.Thread(target=worker.run, args=(stop,)))
        threads[-1].start()
        until(lambda: worker.last_poll_at is not None)
        return worker

    yield start
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for opened in catalogs:
        opened.close()


def until(holds, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def mirrored(table, catalog) -> bool:
    return catalog.mirror.status(table.name)["lag_versions"] == 0


def test_a_watch_sees_the_commits_of_others_once(catalog, tmp_path):
    database = inspect(catalog).database
    table = a_table(catalog, tmp_path)
    inspect(catalog).mirroring.hinter.close()
    watch = database.watch_commits()
    try:
        assert not watch.heard(0.0)
        table.commit([an_add("f")])
        database.notify_commits([table.table_id])
        assert watch.heard(10.0)
        assert not watch.heard(0.0)
    finally:
        watch.close()


@pytest.mark.req("R16")
def test_commits_reach_the_log_without_a_poll(catalog, serve, tmp_path):
    table = a_table(catalog, tmp_path)
    serve(BY_SIGNS)
    until(lambda: mirrored(table, catalog))
    for number in range(20):
        table.commit([an_add(f"f{number}")])
        until(lambda: mirrored(table, catalog))
    check_invariants(catalog, "orders")


def test_a_stream_of_commits_is_followed_to_its_end(catalog, serve, tmp_path):
    """The last commit may come when the worker has looked for the last time and is not yet free."""
    tables = [a_table(catalog, tmp_path, f"t{n}") for n in range(3)]
    serve(BY_SIGNS)
    for number in range(100):
        for table in tables:
            table.commit([an_add(f"f{number}")])
    until(lambda: all(mirrored(table, catalog) for table in tables))
    for table in tables:
        check_invariants(catalog, table.name)


def test_a_program_that_ends_at_once_has_told_its_commit(catalog_uri, serve, tmp_path):
    with deltasql.connect(catalog_uri, settings=WORKER) as short:
        a_table(short, tmp_path)
    serve(BY_SIGNS)
    with deltasql.connect(catalog_uri, settings=WORKER) as short:
        table = short.table("orders")
        table.commit([an_add("f")])
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        until(lambda: catalog.mirror.status("orders")["lag_versions"] == 0)


def test_a_lost_connection_is_made_again_and_the_poll_goes_on(postgres_server, tmp_path):
    name = postgres_server.create_database_name()
    uri, stop = postgres_server.uri(name), threading.Event()
    with deltasql.connect(uri, settings=WORKER) as catalog:
        table = a_table(catalog, tmp_path)
        worker = catalog.mirror.reconciler(BY_POLL)
        worker.wakes.backoff = Backoff(0.2, 0.2)
        thread = threading.Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            until(lambda: worker.wakes._watch)
            first = worker.wakes._watch
            with psycopg.connect(postgres_server.dsn(name), autocommit=True) as admin:
                ended = admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where query like 'listen %' and datname = current_database()"
                ).fetchall()
            assert ended == [(True,)]
            table.commit([an_add("f")])
            until(lambda: mirrored(table, catalog))
            until(lambda: worker.wakes._watch not in (None, first))
        finally:
            stop.set()
            thread.join(30)
        check_invariants(catalog, "orders")


def test_commits_carry_no_notify(postgres_server, tmp_path):
    """It would serialise the commits of the whole server: docs/decisions/0014."""
    name = postgres_server.create_database_name()
    with deltasql.connect(postgres_server.uri(name), settings=WORKER) as catalog:
        catalog.create_if_missing()
        inspect(catalog).mirroring.hinter.close()
        table = a_table(catalog, tmp_path)
        watch = inspect(catalog).database.watch_commits()
        try:
            table.commit([an_add("f")])
            assert not watch.heard(0.2)
        finally:
            watch.close()


def test_a_channel_fits_whatever_the_schema_is_called():
    assert channel_of("deltasql") == "deltasql_deltasql"
    names = {channel_of(letter * 63) for letter in "aé"}
    assert len(names) == 2
    assert all(len(name.encode()) <= 63 for name in names)
