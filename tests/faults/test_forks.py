"""A forked child starts afresh: pools, Airflow, gunicorn and notebooks fork with a catalog open."""

import itertools
import json
import os
import threading

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows
from deltasql.errors import DeltaSqlError
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from forked import in_child

pytestmark = [pytest.mark.req("R2"), pytest.mark.filterwarnings("ignore:.*fork.*")]


def appends(table, worker: str, count: int) -> dict[str, int]:
    return {
        token: table.commit([an_add(f"{token}.parquet")], commit_id=token)
        for token in (f"{worker}-{number}" for number in range(count))
    }


def test_a_forked_child_and_its_parent_both_commit(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    acknowledged = appends(table, "before", 3)
    acknowledged |= in_child(lambda: appends(table, "child", 5))
    acknowledged |= appends(table, "parent", 5)
    assert len(set(acknowledged.values())) == 13
    check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_a_child_goes_on_when_its_parent_has_closed(catalog_uri, tmp_path):
    """The parent closes the catalog while the child uses its own; nothing is lost."""
    go, done = os.pipe(), os.pipe()
    catalog = deltasql.connect(catalog_uri, settings=NO_MIRROR)
    table = a_table(catalog, tmp_path)
    acknowledged = appends(table, "before", 2)
    child = os.fork()
    if child == 0:
        os.read(go[0], 1)
        os.write(done[1], json.dumps(appends(table, "child", 3)).encode())
        os._exit(0)
    catalog.close()
    os.write(go[1], b"x")
    acknowledged |= json.loads(os.read(done[0], 10_000))
    os.waitpid(child, 0)
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as fresh:
        check_invariants(fresh, "orders", acknowledged=acknowledged)


def test_numbers_of_files_are_not_given_out_twice(catalog, tmp_path):
    """A file whose number another one has cannot be removed any more."""
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    children = [in_child(lambda n=n: table.append(rows(10 + n))) for n in range(3)]
    assert children == [2, 3, 4]
    table.append(rows(2))
    table.overwrite(rows(7))
    assert ids(table) == [7]


def test_children_side_by_side_commit_each_its_own(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    appends(table, "before", 1)
    reader, writer = os.pipe()
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                told = appends(table, f"child{number}", 10)
            except DeltaSqlError as error:
                told = {"error": str(error)}
            os.write(writer, (json.dumps(told) + "\n").encode())
            os._exit(0)
        children.append(child)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = [json.loads(line) for line in pipe]
    for child in children:
        os.waitpid(child, 0)
    acknowledged = dict(itertools.chain.from_iterable(line.items() for line in lines))
    assert "error" not in acknowledged, acknowledged
    assert len(acknowledged) == 40
    check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_a_child_mirrors_its_commits_by_threads_of_its_own(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    assert in_child(lambda: [table.append(rows(2)), table.wait_mirrored(timeout=30) or 0])
    log = {file.name for file in (tmp_path).glob("lake-*/_delta_log/*.json")}
    assert {f"{version:020d}.json" for version in range(3)} <= log


def test_a_fork_waits_for_the_writes_of_other_threads(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    stop, acknowledged = threading.Event(), {}

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            acknowledged.update(appends(table, f"thread{number}", 1))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            acknowledged |= in_child(lambda n=number: appends(table, f"child{n}", 2))
    finally:
        stop.set()
        thread.join()
    check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_a_child_that_is_forked_inside_a_write_is_refused_by_name(tmp_path):
    """Its copy of SQLite would hold the write lock for ever; PostgreSQL has no such copy."""
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db", settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        told = []

        def fork(point: str) -> None:
            if point == "after-lock" and not told:
                told.append("")
                told[0] = in_child(lambda: _error_of(table.history))

        with hooked(fork):
            assert table.commit([an_add("a")]) == 1
        assert "forked" in told[0]
        check_invariants(catalog, "orders")


def _error_of(work) -> str:
    try:
        work()
    except DeltaSqlError as error:
        return f"{error.message} {error.advice}"
    return "no error"


def test_a_child_does_not_wait_for_a_lock_that_a_thread_of_its_parent_held(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    with inspect(catalog).connection.ownership._lock:
        assert in_child(lambda: table.append(rows(2))) == 2
    assert ids(table) == [1, 2]
