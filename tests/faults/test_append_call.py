"""A blind append by one call: the same rows as by a transaction, and never twice."""

import threading
import time
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

import deltasql
import toxics
from builders import NO_MIRROR, a_table, an_add, paths
from deltasql.errors import CommitConflictError, OwnershipError, TableStateError
from deltasql.protocol.codec import decode_commit, digest, serialize_actions
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

FAST, SLOW = "after-append-call", "after-lock"


@pytest.fixture
def uri(postgres_server):
    return postgres_server.uri(postgres_server.create_database_name())


@pytest.fixture
def opened(uri, tmp_path):
    """A catalog whose table is known and whose clock is: the next append may be fast."""
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.commit([an_add("first")])
        yield catalog, table


@contextmanager
def watched():
    passed: list[str] = []
    with hooked(passed.append):
        yield passed


def roads(passed: list[str]) -> list[str]:
    return [point for point in passed if point in (FAST, SLOW)]


def test_appends_are_fast_and_their_rows_are_those_of_the_slow_road(opened):
    catalog, table = opened
    with watched() as passed:
        assert [table.commit([an_add(f"f{n}", low=n, high=n)]) for n in range(3)] == [2, 3, 4]
    assert roads(passed) == [FAST] * 3
    slow = table.commit([an_add("slow", low=7, high=7)], txn=("app", 1))
    entries = {entry.version: entry for entry in table.history()}
    for name in ("operation", "operation_params", "committer", "is_blind_append", "adds", "origin"):
        assert getattr(entries[2], name) == getattr(entries[slow], name)
    assert [entries[v].read_version for v in (2, 3, 4)] == [1, 2, 3]
    assert paths(table, where="id = 2") >= {"f2"}
    assert "f0" not in paths(table, where="id = 2")
    check_invariants(catalog, "orders")


def test_a_repeated_token_is_one_commit(opened):
    catalog, table = opened
    assert table.commit([an_add("f")], commit_id="token") == 2
    with watched() as passed:
        assert table.commit([an_add("f")], commit_id="token") == 2
    assert FAST not in passed
    assert table.version == 2
    check_invariants(catalog, "orders", acknowledged={"token": 2})


def test_a_file_that_is_live_already_is_put_in_its_place(opened):
    catalog, table = opened
    table.commit([an_add("same", low=1, high=1)])
    table.commit([an_add("same", low=5, high=5)])
    assert table.version == 3
    assert "same" not in paths(table, where="id = 1")
    assert "same" in paths(table, where="id = 5")
    check_invariants(catalog, "orders")


@pytest.mark.parametrize("change", ["alter", "detach", "drop", "conflict", "epoch"])
def test_a_table_that_is_not_as_it_was_is_found_out(opened, uri, change):
    """Somebody changes the table between our look at it and the statement."""
    catalog, table = opened
    done = []

    def meddle(point: str) -> None:
        if point == "before-append-call" and not done:
            done.append(point)
            with deltasql.connect(uri, settings=NO_MIRROR) as other:
                _change(other, change)

    with hooked(meddle):
        if change == "alter":
            # an append on the newest rules is tried once more by itself
            assert table.commit([an_add("late")]) == 3
        else:
            kinds = (TableStateError, OwnershipError, CommitConflictError)
            with pytest.raises(kinds):
                table.commit([an_add("late")])
    assert done
    if change != "alter":
        found = catalog.table("orders").snapshot().files(["path"]) if change != "drop" else None
        assert found is None or "late" not in found.column("path").to_pylist()


def _change(catalog: deltasql.Catalog, change: str) -> None:
    table = catalog.table("orders")
    database = inspect(catalog).database
    if change == "alter":
        table.alter(properties={"k": "v"})
    elif change == "detach":
        table.detach()
    elif change == "drop":
        catalog.drop("orders")
    elif change == "conflict":
        with database.write() as tx:
            tx.execute("conflict_state", table_id=table.table_id)
    else:
        with database._pool.connection() as connection:
            connection.execute("update dl_catalog set epoch = epoch + 1")
            connection.execute("update dl_tables set epoch = epoch + 1")


def test_times_are_the_databases_and_grow_whatever_the_caller_thinks(opened):
    """A clock that runs ahead or behind only sends the commit as a transaction."""
    catalog, table = opened
    fast = inspect(catalog).metastore.committer._calls
    shown, at = fast._clock
    for wrong in (3_600_000, -3_600_000, -5):
        fast._clock = (shown + wrong, at)
        table.commit([an_add(f"f{wrong}")])
    entries = table.history()
    times = [entry.committed_at for entry in entries]
    assert times == sorted(set(times), reverse=True)
    assert times[0] - times[-1] < 60_000
    check_invariants(catalog, "orders")


def test_the_time_is_in_the_bytes_and_in_the_rows(opened):
    catalog, table = opened
    version = table.commit([an_add("f")])
    entry = table.history(1)[0]
    payload = inspect(catalog).metastore.payload(table.table_id, version)
    info = decode_commit(payload, version=version)[0]
    assert info.timestamp == info.in_commit_timestamp == entry.committed_at
    assert entry.digest == digest(payload)
    assert table.snapshot().timestamp == entry.committed_at
    assert serialize_actions(decode_commit(payload, version=version)) == payload


def test_a_table_without_commit_times_of_its_own_has_one_time_in_its_bytes(uri, tmp_path):
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        properties = {"delta.enableInCommitTimestamps": "false"}
        table = a_table(catalog, tmp_path, properties=properties)
        table.commit([an_add("first")])
        with watched() as passed:
            version = table.commit([an_add("f")])
        assert roads(passed) == [FAST]
        payload = inspect(catalog).metastore.payload(table.table_id, version)
        info = decode_commit(payload, version=version)[0]
        assert info.in_commit_timestamp is None
        assert info.timestamp == table.history(1)[0].committed_at
        check_invariants(catalog, "orders")


@pytest.mark.parametrize(
    "text", ['"timestamp":1000000000000', "1000000000000", '{"inCommitTimestamp":1000000000000}']
)
def test_words_that_look_like_the_place_of_the_time_stay_as_they_are(opened, text):
    catalog, table = opened
    version = table.commit([an_add(f"f-{text}")], user_metadata=text)
    payload = inspect(catalog).metastore.payload(table.table_id, version)
    info, add = decode_commit(payload, version=version)
    assert (info.user_metadata, add.path) == (text, f"f-{text}")
    assert info.timestamp == table.history(1)[0].committed_at
    check_invariants(catalog, "orders")


@pytest.mark.parametrize("direction", ["downstream", "upstream"])
def test_a_cut_connection_leaves_exactly_one_version(
    postgres_server, toxiproxy, tmp_path, direction
):
    """downstream: the server commits and its reply is lost; upstream: nothing ever arrives."""
    name = postgres_server.create_database_name()
    direct = postgres_server.uri(name)
    with (
        toxics.proxied(toxiproxy.port, postgres_server.port) as proxy,
        deltasql.connect(direct, settings=NO_MIRROR) as plain,
    ):
        through = direct.replace(f"port={postgres_server.port}", f"port={proxy.port}")
        a_table(plain, tmp_path)
        with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:
            table = catalog.table("orders")
            for name in ("first", "second"):  # the second prepares the call
                table.commit([an_add(name)])
            passed: list[str] = []

            def cut(point: str) -> None:
                passed.append(point)
                if point == "before-append-call":
                    damage.enter_context(proxy.toxic("limit_data", direction, bytes=0))
                elif point == "before-resolve":
                    damage.close()

            with hooked(cut):
                assert table.commit([an_add("f")], commit_id="token") == 3
            assert passed.count("before-resolve") == 1
            assert ("after-commit" in passed) == (direction == "upstream")
        assert plain.table("orders").version == 3
        check_invariants(plain, "orders", acknowledged={"token": 3})


@contextmanager
def locked_row(uri: str, table_id: str):
    """Hold the table's row lock, as a slow transaction of somebody else does."""
    with deltasql.connect(uri, settings=NO_MIRROR) as other:
        other.create_if_missing()
        database = inspect(other).database
        with psycopg.connect(database._conninfo) as connection:
            place = psycopg.sql.Identifier(database.schema)
            connection.execute(psycopg.sql.SQL("set search_path to {}").format(place))
            connection.execute("select 1 from dl_tables where table_id = %s for update", [table_id])
            yield connection


def waiting(server) -> int:
    asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with psycopg.connect(server.dsn()) as connection:
        return connection.execute(asked).fetchone()[0]


def test_a_statement_that_outlives_its_connection_commits_once(
    postgres_server, toxiproxy, tmp_path
):
    """It waits for the row lock when its client is cut off; the client finds what it did."""
    direct = postgres_server.uri(postgres_server.create_database_name())
    with (
        toxics.proxied(toxiproxy.port, postgres_server.port) as proxy,
        deltasql.connect(direct, settings=NO_MIRROR) as plain,
    ):
        through = direct.replace(f"port={postgres_server.port}", f"port={proxy.port}")
        table_id = a_table(plain, tmp_path).table_id
        with deltasql.connect(through, settings=NO_MIRROR) as catalog:
            table = catalog.table("orders")
            table.commit([an_add("first")])
            told: list[int] = []
            with locked_row(direct, table_id):
                thread = threading.Thread(
                    target=lambda: told.append(table.commit([an_add("f")], commit_id="token"))
                )
                thread.start()
                _until(lambda: waiting(postgres_server) >= 1)
                with proxy.down():
                    pass
                # the old statement, and who asks what became of it
                _until(lambda: waiting(postgres_server) >= 2)
            thread.join(60)
            assert told == [2]
        assert plain.table("orders").version == 2
        check_invariants(plain, "orders", acknowledged={"token": 2})


def test_a_fenced_statement_does_nothing_any_more(opened, postgres_server, uri):
    """Whoever gives a lost statement up raises the table's time: it fails when it gets the lock."""
    catalog, table = opened
    fast = inspect(catalog).metastore.committer._calls
    ceilings: list[int] = []
    choose = type(fast)._ceiling

    def note(self) -> int | None:
        ceilings.append(choose(self))
        return ceilings[-1]

    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch, watched() as passed:
        patch.setattr(type(fast), "_ceiling", note)
        with locked_row(uri, table.table_id) as lock:
            thread = threading.Thread(target=lambda: told.append(table.commit([an_add("f")])))
            thread.start()
            _until(lambda: waiting(postgres_server) >= 1)
            lock.execute(
                "update dl_tables set last_ict = greatest(last_ict, %s) where table_id = %s",
                [ceilings[0], table.table_id],
            )
        thread.join(60)
    assert told == [2]
    assert roads(passed) == [FAST, SLOW]
    check_invariants(catalog, "orders")


def test_fence_raises_the_time_and_never_lowers_it(opened):
    catalog, table = opened
    committer = inspect(catalog).metastore.committer
    last = table.refresh().last_ict
    for ceiling, expected in ((last - 1, last), (last + 5, last + 5)):
        with committer.database.write() as tx:
            committer._calls.fence(tx, table.table_id, ceiling)
        assert table.refresh().last_ict == expected


def _until(holds) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")
