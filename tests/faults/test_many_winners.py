"""A commit far behind checks its winners before it locks the table: nobody waits for that."""

import os
import signal

import pytest

import deltasql
import processes
from builders import NO_MIRROR, a_table, an_add, ids, rows
from deltasql.errors import CommitConflictError
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R2")
WINNERS = 150


def _stale(catalog, table, where: str):
    """Return a transaction that deletes a partition as of now."""
    tx = catalog.transaction(commit_id="stale")
    tx.table("orders").delete(where)
    return tx


@pytest.fixture
def table(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        made = a_table(catalog, tmp_path)
        made.append(rows(1, day="gone"))
        made.append(rows(2, day="kept"))
        yield catalog, made


def test_many_winners_are_checked_before_the_lock(table):
    catalog, orders = table
    tx = _stale(catalog, orders, "day = 'gone'")
    for number in range(WINNERS):
        orders.commit([an_add(f"f{number}", day="other")])
    passed: list[str] = []
    with hooked(passed.append):
        assert tx.commit() == {"orders": WINNERS + 3}
    assert "before-check-ahead" in passed
    assert passed.count("after-lock") == 2
    assert ids(orders, where="day != 'other'") == [2]
    check_invariants(catalog, "orders", acknowledged={"stale": WINNERS + 3})


def test_a_conflict_among_many_winners_is_found_before_the_lock(table):
    catalog, orders = table
    tx = _stale(catalog, orders, "day = 'gone'")
    for number in range(WINNERS):
        orders.commit([an_add(f"f{number}", day="gone" if number == 10 else "other")])
    passed: list[str] = []
    with hooked(passed.append), pytest.raises(CommitConflictError) as error:
        tx.commit()
    assert error.value.context["version"] == 13
    assert "before-commit" not in passed
    assert orders.version == WINNERS + 2


def test_a_winner_that_comes_behind_the_check_is_found_under_the_lock(table):
    catalog, orders = table
    tx = _stale(catalog, orders, "day = 'gone'")
    for number in range(WINNERS):
        orders.commit([an_add(f"f{number}", day="other")])
    passed: list[str] = []

    def race(point: str) -> None:
        passed.append(point)
        if point == "before-begin" and passed.count("before-check-ahead") == 1:
            passed.append("before-check-ahead")
            orders.commit([an_add("late", day="gone")])

    with hooked(race), pytest.raises(CommitConflictError) as error:
        tx.commit()
    assert error.value.context["version"] == WINNERS + 3
    assert orders.version == WINNERS + 3


def test_a_process_killed_while_it_checks_ahead_leaves_nothing(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        orders = a_table(catalog, tmp_path)
        orders.append(rows(1, day="gone"))
        child = os.fork()
        if child == 0:
            tx = _stale(catalog, orders, "day = 'gone'")
            for number in range(WINNERS):
                orders.commit([an_add(f"f{number}", day="other")])

            def die(point: str) -> None:
                if point == "before-check-ahead":
                    os.kill(os.getpid(), signal.SIGKILL)

            with hooked(die):
                tx.commit()
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        processes.until(lambda: catalog.table("orders").version == WINNERS + 1)
        check_invariants(catalog, "orders")
