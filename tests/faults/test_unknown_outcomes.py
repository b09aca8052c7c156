"""An outcome that is not known is never told as a refusal, and never as a success."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

import deltasql
import processes
import toxics
from builders import NO_MIRROR, SCHEMA, a_table, an_add, rows
from deltasql.errors import BadArgumentError, CommitUnknownError, OwnershipError
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from deltasql.uri import parse_uri

pytestmark = pytest.mark.req("R2")


@pytest.fixture
def proxied(postgres_server, toxiproxy):
    name = postgres_server.create_database_name()
    with toxics.proxied(toxiproxy.port, postgres_server.port) as proxy:
        direct = postgres_server.uri(name)
        through = direct.replace(f"port={postgres_server.port}", f"port={proxy.port}")
        yield proxy, direct, through, postgres_server.dsn(name), name


@pytest.fixture
def pg(postgres_server):
    name = postgres_server.create_database_name()
    return postgres_server.uri(name), postgres_server.dsn(name), name


def _read_only(dsn: str, name: str, state: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.execute(f"alter database {name} set default_transaction_read_only = {state}")


def _with_fast_clock(catalog, sleep=lambda _: None) -> None:
    ticks = itertools.count(step=5.0)
    committer = inspect(catalog).metastore.committer
    committer.sleep, committer.monotonic = sleep, lambda: float(next(ticks))


def test_a_standby_that_answers_after_a_lost_commit_does_not_refuse_it(proxied, tmp_path):
    """COMMIT is made, its reply is lost, and whoever answers next takes no writes (25006)."""
    proxy, direct, through, dsn, name = proxied
    with deltasql.connect(direct, settings=NO_MIRROR) as plain:
        a_table(plain, tmp_path)
        with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:
            table = catalog.table("orders")
            _with_fast_clock(catalog)

            def cut(point: str) -> None:
                if point == "before-commit":
                    damage.enter_context(proxy.toxic("limit_data", "downstream", bytes=0))
                elif point == "before-resolve":
                    damage.close()
                    _read_only(dsn, name, "on")

            with (
                hooked(cut),
                pytest.raises(CommitUnknownError) as error,
                catalog.transaction(commit_id="token") as tx,
            ):
                tx.table("orders").commit([an_add("f")])
            assert error.value.retryable
            _read_only(dsn, name, "off")
        with deltasql.connect(direct, settings=NO_MIRROR) as fresh:
            table = fresh.table("orders")
            assert table.commit([an_add("f")], commit_id="token") == 1
            assert table.version == 1
            check_invariants(fresh, "orders", acknowledged={"token": 1})


def test_a_standby_that_becomes_the_primary_meanwhile_tells_the_outcome(proxied, tmp_path):
    proxy, direct, through, dsn, name = proxied
    with deltasql.connect(direct, settings=NO_MIRROR) as plain:
        a_table(plain, tmp_path)
        with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:
            pauses = []

            def sleep(_: float) -> None:
                pauses.append(1)
                if len(pauses) == 3:
                    _read_only(dsn, name, "off")

            _with_fast_clock(catalog, sleep)

            def cut(point: str) -> None:
                if point == "before-commit":
                    damage.enter_context(proxy.toxic("limit_data", "downstream", bytes=0))
                elif point == "before-resolve":
                    damage.close()
                    _read_only(dsn, name, "on")

            with hooked(cut), catalog.transaction(commit_id="token") as tx:
                tx.table("orders").commit([an_add("f")])
            assert dict(tx.versions) == {"orders": 1}
            assert len(pauses) == 3
        check_invariants(plain, "orders", acknowledged={"token": 1})


def test_a_lost_commit_of_a_create_is_the_table_and_not_an_error(proxied, tmp_path):
    """The server is still inside COMMIT when the outcome is asked for: the table comes late."""
    proxy, direct, through, dsn, _ = proxied
    with deltasql.connect(direct, settings=NO_MIRROR) as catalog:
        catalog.create_if_missing()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set search_path = deltasql")
        connection.execute(
            "create function slow() returns trigger language plpgsql as "
            "$$begin perform pg_sleep(3); return null; end$$"
        )
        connection.execute(
            "create constraint trigger slow after insert on dl_tables deferrable initially "
            "deferred for each row execute function slow()"
        )
    with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:
        passed = []

        def cut(point: str) -> None:
            if point == "before-commit" and point not in passed:
                damage.enter_context(proxy.toxic("reset_peer", "downstream", timeout=500))
            elif point == "before-resolve":
                damage.close()
            passed.append(point)

        with hooked(cut):
            table = catalog.create_table("orders", location=str(tmp_path / "t"), schema=SCHEMA)
        assert "before-resolve" in passed
        assert table.version == 0
        assert [row.name for row in catalog.tables()] == ["orders"]
        check_invariants(catalog, "orders")


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "transaction"])
def test_a_commit_that_waited_while_an_epoch_began_is_refused(pg, tmp_path, fast):
    uri, _, _ = pg
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        found = parse_uri(uri)
        with psycopg.connect(found.conninfo()) as blocker, ThreadPoolExecutor(1) as pool:
            blocker.execute(f"set search_path = {found.schema}")
            blocker.execute("select 1 from dl_tables for update")
            if fast:
                waiting = pool.submit(table.append, rows(2))
            else:
                waiting = pool.submit(_in_transaction, catalog)
            _wait_for_waiters(found.conninfo(), 1)
            blocker.execute("update dl_catalog set epoch = epoch + 1")
            blocker.execute("update dl_tables set epoch = epoch + 1")
            blocker.commit()
            with pytest.raises(OwnershipError):
                waiting.result(60)
        assert catalog.table("orders").version == 1


def test_an_epoch_begins_behind_the_commits_that_wait(pg, tmp_path):
    """Whoever recovers sees every commit that was accepted under the old epoch."""
    uri, _, _ = pg
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        found = parse_uri(uri)
        with psycopg.connect(found.conninfo()) as blocker, ThreadPoolExecutor(2) as pool:
            blocker.execute(f"set search_path = {found.schema}")
            blocker.execute("select 1 from dl_tables for update")
            waiting = pool.submit(table.append, rows(2))
            _wait_for_waiters(found.conninfo(), 1)

            def begin() -> int:
                with deltasql.connect(uri, settings=NO_MIRROR) as other:
                    other.create_if_missing()
                    inspect(other).metastore.new_epoch()
                    return other.table("orders").version

            seen = pool.submit(begin)
            _wait_for_waiters(found.conninfo(), 2)
            blocker.commit()
            assert waiting.result(60) == 2
            assert seen.result(60) == 2
        with pytest.raises(OwnershipError):
            table.append(rows(3))
        assert catalog.table("orders").version == 2


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_database_of_another_isolation_level_takes_all_commits(pg, tmp_path, level):
    uri, dsn, name = pg
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_isolation = '{level}'")
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        acknowledged, lock = {}, threading.Lock()

        def write(worker: int) -> None:
            for number in range(10):
                token = f"{worker}-{number}"
                version = table.commit([an_add(token)], commit_id=token)
                with lock:
                    acknowledged[token] = version

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(write, worker) for worker in range(4)]:
                done.result()
        assert len(acknowledged) == 40
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_a_key_that_postgres_cannot_index_is_a_bad_argument(pg, tmp_path):
    uri, _, _ = pg
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        chance = "".join(f"{number:x}" for number in range(6000))
        with pytest.raises(BadArgumentError, match="cannot hold"):
            table.commit([an_add("f", day=chance)])
        assert table.version == 0


def test_a_history_whose_old_versions_have_a_text_is_read(catalog_uri, tmp_path):
    """SQLite's driver types a column by its first rows; here 1,100 of them are null."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        with catalog.transaction(user_metadata="told once") as tx:
            tx.table("orders").commit([an_add("first")])
        for number in range(1100):
            table.commit([an_add(f"f{number}")])
        history = table.history()
        assert len(history) == 1102
        assert [e.version for e in history if e.user_metadata] == [1]


def _in_transaction(catalog) -> None:
    with catalog.transaction() as tx:
        tx.table("orders").append(rows(2))
        tx.table("orders").append(rows(3))


def _wait_for_waiters(conninfo: str, count: int) -> None:
    query = "select count(*) from pg_locks where not granted"
    with psycopg.connect(conninfo, autocommit=True) as look:
        processes.until(lambda: look.execute(query).fetchall()[0][0] >= count)
