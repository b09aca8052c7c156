"""A transaction over several tables that an application numbers: run again, it is a no-op."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import deltasql
from builders import a_table, ids, rows
from deltasql.errors import CommitConflictError
from deltasql.testing import check_invariants


@pytest.fixture
def catalog(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as opened:
        for name in ("one", "other", "third"):
            a_table(opened, tmp_path, name)
        yield opened


def write(catalog, number, *names, app="job"):
    with catalog.transaction(txn=(app, number)) as tx:
        for name in names:
            tx.table(name).append(rows(number))
    return tx.versions


def test_a_repetition_writes_nothing(catalog):
    assert write(catalog, 1, "one", "other") == {"one": 1, "other": 1}
    assert write(catalog, 2, "one", "other") == {"one": 2, "other": 2}
    for number in (2, 1):
        assert write(catalog, number, "one", "other") == {"one": number, "other": number}
    assert write(catalog, 1, "one", app="another") == {"one": 3}
    assert (ids(catalog.table("one")), ids(catalog.table("other"))) == ([1, 1, 2], [1, 2])
    check_invariants(catalog, "one")


def test_tables_that_have_it_are_left_alone_and_the_others_are_written(catalog):
    """As in Delta, a table knows by itself what an application has written to it."""
    write(catalog, 1, "one", "other")
    assert write(catalog, 1, "one", "third") == {"one": 1, "third": 1}
    assert write(catalog, 1, "one", "other", "third") == {"one": 1, "other": 1, "third": 1}
    assert [ids(catalog.table(name)) for name in ("one", "other", "third")] == [[1], [1], [1]]


def test_the_same_transaction_in_several_threads_is_one(catalog_uri, catalog):
    """All have staged before the first commits: the others lose and find it done."""
    ready = threading.Barrier(4)

    def run(_):
        with deltasql.connect(catalog_uri) as own, own.transaction(txn=("job", 7)) as tx:
            tx.table("one").append(rows(7))
            tx.table("other").overwrite(rows(7))
            ready.wait(60)
        return tx.versions

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    assert found == [{"one": 1, "other": 1}] * 4
    assert (ids(catalog.table("one")), ids(catalog.table("other"))) == ([7], [7])


def test_a_conflict_with_anybody_else_stays_one(catalog):
    with (
        pytest.raises(CommitConflictError),
        catalog.transaction(txn=("job", 7)) as tx,
    ):
        tx.table("one").overwrite(rows(7))
        catalog.table("one").append(rows(1))
    assert ids(catalog.table("one")) == [1]


def test_nothing_staged_is_nothing_written(catalog):
    assert write(catalog, 1) == {}


def test_the_same_transaction_at_once_is_one(catalog):
    """The slower one finds its work done, in whatever order they come."""
    with catalog.transaction(txn=("job", 1)) as slower:
        slower.table("one").append(rows(1))
        slower.table("other").append(rows(1))
        assert write(catalog, 1, "one", "other") == {"one": 1, "other": 1}
    assert slower.versions == {"one": 1, "other": 1}
    assert (ids(catalog.table("one")), ids(catalog.table("other"))) == ([1], [1])
