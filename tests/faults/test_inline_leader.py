"""Many writers, one log: whoever moves it on takes the others' versions along."""

import threading

import pytest

import deltasql
from builders import a_table, an_add
from deltasql.mirror.engine import Mirrored
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def two(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as one, deltasql.connect(catalog_uri) as other:
        a_table(one, tmp_path)
        yield one, other


def test_a_commit_that_finds_the_log_behind_is_taken_along_by_who_moves_it_on(two):
    """The second commit happens while the first one's mirror is on its way."""
    one, other = two
    results = []
    after = type(inspect(other).inline)._work

    def meddle(point: str) -> None:
        if point == "before-mirror-status" and not results:
            results.append(None)
            thread = threading.Thread(target=lambda: other.table("orders").commit([an_add("b")]))
            thread.start()
            thread.join(30)

    def note(self, done):
        result = after(self, done)
        if self is inspect(other).inline:
            results.append(result.outcome)
        return result

    with pytest.MonkeyPatch.context() as patch, hooked(meddle):
        patch.setattr(type(inspect(other).inline), "_work", note)
        one.table("orders").commit([an_add("a")])
    assert results == [None, Mirrored.BLOCKED]
    assert one.mirror.status("orders")["lag_versions"] == 0
    check_invariants(one, "orders")


def test_a_log_that_nobody_moves_on_is_taken_up_by_the_next_commit(two):
    """The writer before died after its COMMIT: its version is not left behind for ever."""
    one, other = two
    _die_after_commit(one)
    table = other.table("orders")
    clock = inspect(other).inline
    table.commit([an_add("next")])
    if other.mirror.status("orders")["lag_versions"]:
        # it looked as if somebody were at it; a second later it does not any more
        clock._seen[table.table_id] = (clock._seen[table.table_id][0], -10.0)
        table.commit([an_add("after")])
    assert other.mirror.status("orders")["lag_versions"] == 0
    check_invariants(other, "orders")


def test_whoever_left_a_version_to_others_looks_after_it_before_he_goes(two, catalog_uri):
    one, _ = two
    _die_after_commit(one)
    with deltasql.connect(catalog_uri) as last:
        last.table("orders").commit([an_add("next")])
    assert one.mirror.status("orders")["lag_versions"] == 0
    check_invariants(one, "orders")


def _die_after_commit(catalog) -> None:
    class DiedError(Exception):
        pass

    def die(point: str) -> None:
        if point == "before-put":
            raise DiedError

    with hooked(die):
        catalog.table("orders").commit([an_add("dead")])
    assert catalog.mirror.status("orders")["lag_versions"] == 1
