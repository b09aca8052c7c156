"""Appends that meet share a transaction; each has its own version, token and outcome."""

import itertools
import json
import signal
import threading
from contextlib import ExitStack

import pytest

import deltasql
import processes
import toxics
from builders import NO_MIRROR, a_table, an_add, paths, rows
from deltasql.metastore.commit import append as append_groups
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from forked import in_child
from groups import commit_in_one_group

pytestmark = pytest.mark.req("R9")

POINTS = [
    "before-group",
    "after-group-lock",
    "after-group-files",
    "before-group-commit",
    "after-group-commit",
]


@pytest.fixture
def opened(catalog_uri, tmp_path):
    """A catalog that mirrors nothing, and a table."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        yield catalog, a_table(catalog, tmp_path)


def _appends(table, count: int, prefix: str = "t"):
    def append(token: str) -> int:
        return table.commit([an_add(token)], commit_id=token)

    return [lambda token=f"{prefix}{n}": append(token) for n in range(count)]


def test_appends_that_meet_are_one_transaction(opened):
    catalog, table = opened
    points = []
    outcomes = commit_in_one_group(catalog, table, _appends(table, 8), points.append)
    assert points.count("before-group-commit") == 1
    assert outcomes == list(range(3, 11))  # behind the create, the warm append and the first
    history = table.history()
    times = [entry.committed_at for entry in reversed(history)]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert len({entry.transaction_id for entry in history}) == 1
    acknowledged = {f"t{n}": outcomes[n] for n in range(8)}
    check_invariants(catalog, "orders", acknowledged=acknowledged)
    for n in range(8):
        assert paths(table, version=outcomes[n]) - paths(table, version=outcomes[n] - 1) == {
            f"t{n}"
        }


def test_statistics_and_partitions_of_a_group_prune(opened):
    catalog, table = opened
    writes = [lambda n=n: table.append(rows(n, day=f"d{n % 3}")) for n in range(6)]
    # data is written before the commit, so these meet only where the leader waits for them
    outcomes = commit_in_one_group(catalog, table, writes)
    assert sorted(outcomes) == list(range(3, 9))
    for n in range(6):
        assert table.snapshot(where=f"day = 'd{n % 3}' and id = {n}").files().num_rows == 1
    check_invariants(catalog, "orders")


def test_a_token_that_is_there_twice_is_one_commit(opened):
    catalog, table = opened
    writes = [*_appends(table, 3), *_appends(table, 1), *_appends(table, 2, "other")]
    outcomes = commit_in_one_group(catalog, table, writes)
    assert outcomes[0] == outcomes[3]
    assert len(set(outcomes)) == 5
    assert all(isinstance(outcome, int) for outcome in outcomes)
    tokens = ["t0", "t1", "t2", "t0", "other0", "other1"]
    check_invariants(catalog, "orders", acknowledged=dict(zip(tokens, outcomes, strict=True)))


def test_a_file_that_is_added_twice_is_there_once(opened):
    catalog, table = opened
    writes = [
        lambda token=token: table.commit([an_add("same")], commit_id=token) for token in "abc"
    ]
    outcomes = commit_in_one_group(catalog, table, writes)
    assert len(set(outcomes)) == 3
    assert paths(table) == {"warm", "first", "same"}
    check_invariants(catalog, "orders", acknowledged=dict(zip("abc", outcomes, strict=True)))


def test_metadata_that_changes_before_the_lock_loses_no_append(opened, catalog_uri):
    catalog, table = opened
    changed = []

    def change(point: str) -> None:
        if point == "before-group" and not changed:
            with deltasql.connect(catalog_uri, settings=NO_MIRROR) as other:
                changed.append(other.table("orders").alter(properties={"k": "v"}))

    outcomes = commit_in_one_group(catalog, table, _appends(table, 4), change)
    assert changed == [3]
    assert sorted(outcomes) == [4, 5, 6, 7]  # each is sent again by its own thread
    made = {f"t{n}": version for n, version in enumerate(outcomes)}
    check_invariants(catalog, "orders", acknowledged=made)


@pytest.mark.parametrize("point", POINTS)
def test_a_leader_that_is_interrupted_leaves_the_others_their_outcome(opened, point):
    catalog, table = opened
    interrupted = []

    def interrupt(name: str) -> None:
        if name == point and not interrupted:
            interrupted.append(threading.current_thread())
            raise KeyboardInterrupt

    outcomes = commit_in_one_group(catalog, table, _appends(table, 4), interrupt)
    assert isinstance(outcomes[0], KeyboardInterrupt)
    made = {f"t{n}": outcomes[n] for n in (1, 2, 3)}
    assert all(isinstance(version, int) for version in made.values())
    made["t0"] = table.commit([an_add("t0")], commit_id="t0")
    assert inspect(catalog).metastore.committer._groups._queues == {}
    check_invariants(catalog, "orders", acknowledged=made)


@pytest.mark.parametrize(("ahead_ms", "pauses"), [(5_000, []), (60_000, [0.004])])
def test_times_that_run_ahead_of_the_clock_slow_groups_down(opened, monkeypatch, ahead_ms, pauses):
    catalog, table = opened
    table.commit([an_add("warm")])
    committer = inspect(catalog).metastore.committer
    ahead = table.refresh().last_ict + ahead_ms
    with committer.database.write() as tx:
        tx.execute("raise_last_ict", table_id=table.table_id, ict=ahead)
    slept = []
    monkeypatch.setattr(committer, "sleep", slept.append)
    outcomes = commit_in_one_group(catalog, table, _appends(table, 4))
    assert all(isinstance(outcome, int) for outcome in outcomes)
    assert slept == pauses
    check_invariants(catalog, "orders")


def test_nobody_waits_for_a_leader_that_hangs(opened, monkeypatch):
    monkeypatch.setattr(append_groups, "_WAIT_TO_BE_TAKEN_S", 0.05)
    catalog, table = opened
    table.commit([an_add("warm")])
    hangs, go_on = threading.Event(), threading.Event()

    def hang(point: str) -> None:
        if threading.current_thread().name == "hanging" and "before" in point:
            hangs.set()
            assert go_on.wait(60)

    with hooked(hang):
        thread = threading.Thread(target=lambda: table.commit([an_add("slow")]), name="hanging")
        thread.start()
        assert hangs.wait(60)
        versions = [table.commit([an_add(f"f{n}")], commit_id=f"f{n}") for n in range(3)]
        assert thread.is_alive()
        go_on.set()
        thread.join()
    assert versions == [2, 3, 4]
    assert paths(table) == {"warm", "slow", "f0", "f1", "f2"}
    check_invariants(catalog, "orders", acknowledged={f"f{n}": v for n, v in enumerate(versions)})


def test_a_forked_child_waits_for_no_thread_of_its_parent(opened):
    catalog, table = opened
    table.commit([an_add("warm")])
    leads, go_on = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if threading.current_thread().name == "leader" and "before" in point:
            leads.set()
            assert go_on.wait(60)

    with hooked(hold):
        leader = threading.Thread(target=lambda: table.commit([an_add("parent")]), name="leader")
        leader.start()
        assert leads.wait(60)
        version = in_child(lambda: table.commit([an_add("child")]))
        go_on.set()
        leader.join()
    assert version == 2
    assert paths(table) == {"warm", "parent", "child"}
    check_invariants(catalog, "orders")


@pytest.mark.parametrize("direction", ["downstream", "upstream"])
def test_a_lost_reply_to_a_group_loses_and_doubles_nothing(
    postgres_server, toxiproxy, tmp_path, direction
):
    """downstream: the group is committed and its reply lost; upstream: COMMIT never arrives."""
    direct = postgres_server.uri(postgres_server.create_database_name())
    with (
        toxics.proxied(toxiproxy.port, postgres_server.port) as proxy,
        deltasql.connect(direct, settings=NO_MIRROR) as plain,
    ):
        a_table(plain, tmp_path)
        through = direct.replace(f"port={postgres_server.port}", f"port={proxy.port}")
        points, lock = [], threading.Lock()
        with deltasql.connect(through, settings=NO_MIRROR) as catalog, ExitStack() as damage:

            def cut(point: str) -> None:
                with lock:
                    points.append(point)
                    if point == "before-group-commit":
                        damage.enter_context(proxy.toxic("limit_data", direction, bytes=0))
                    elif points.count("before-group-commit") == 1:
                        damage.close()

            table = catalog.table("orders")
            outcomes = commit_in_one_group(catalog, table, _appends(table, 5), cut)
        assert points.count("before-group-commit") == 1
        assert "after-group-commit" not in points
        assert all(isinstance(outcome, int) for outcome in outcomes), outcomes
        acknowledged = {f"t{n}": outcomes[n] for n in range(5)}
        assert len(set(outcomes)) == 5
        assert plain.table("orders").version == 7
        check_invariants(plain, "orders", acknowledged=acknowledged)


@pytest.mark.parametrize("passage", [1, 4])
@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_in_a_group_keeps_what_it_acknowledged(
    catalog_uri, tmp_path, point, passage
):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:{passage}"}
        worker = processes.start("append_by_threads", catalog_uri, "orders", "8", env=env)
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == -signal.SIGKILL, err
        lines = out.splitlines(keepends=True)
        told = dict(json.loads(line) for line in lines if line.endswith("\n"))
        check_invariants(catalog, "orders", acknowledged=told)
        # every token is sent again: those that were acknowledged are where they were
        again = {
            f"{n}-{k}": table.commit([an_add(f"{n}-{k}")], commit_id=f"{n}-{k}")
            for n in range(8)
            for k in range(3)
        }
        assert told.items() & again.items() == {
            (token, version) for token, version in told.items() if token in again
        }
        check_invariants(catalog, "orders", acknowledged=told | again)


@pytest.mark.verify
def test_threads_that_do_anything_at_once_lose_nothing(catalog_uri, tmp_path):
    """Eight threads of two processes append, delete, overwrite and use transactions."""
    seed = 17
    print("seed", seed)
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        workers = [
            processes.start("mix_by_threads", catalog_uri, "orders", str(seed + n), "8", "40")
            for n in range(2)
        ]
        acknowledged: dict[str, int] = {}
        for worker in workers:
            acknowledged |= processes.finish(worker)
        assert len(acknowledged) > 300
        check_invariants(catalog, "orders", acknowledged=acknowledged)
