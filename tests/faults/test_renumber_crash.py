"""kill -9 while ours move above foreign commits: whole or not at all, and it can be repeated."""

import signal

import pytest

import deltasql
from builders import NO_MIRROR, a_table, ids, rows, some
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, put_foreign
from processes import start
from readers import read_deltalake, read_deltasql

pytestmark = pytest.mark.verify

INSIDE = ["after-files", "after-version-row", "before-renumber-commit"]
AFTER = ["after-renumber-commit", "before-put", "after-put", "before-batch-status"]


@pytest.fixture
def contested(catalog_uri, tmp_path):
    """A table whose version 2 was made twice; SQL went on to 3 before anybody noticed."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        put_foreign(table, 2, a_foreign_file(table, 100))
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = catalog.table("orders")
        for number in (10, 11):
            table.append(rows(number), commit_id=f"own-{number}")
        catalog._session.engine.catch_up(table.table_id, seconds=60)
        assert table.state == "conflict"
    return catalog_uri


def repair(uri: str, env: dict[str, str]) -> int:
    process = start("adopt_contested", uri, env={"DELTASQL_TESTING": "1", **env})
    _, err = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode


def check(uri: str) -> None:
    with deltasql.connect(uri) as catalog:
        table = catalog.table("orders")
        assert (table.version, table.state, ids(table)) == (4, "active", [1, 10, 11, 100])
        catalog.mirror.run_once()
        check_invariants(catalog, "orders", acknowledged={"own-10": 3, "own-11": 4})
        assert catalog.mirror.verify("orders") == []
        kept = [(one.old_version, one.new_version) for one in table.rebased_commits()]
        assert kept == [(2, 3), (3, 4)]
        place = table.location.removeprefix("file://")
        for version in range(5):
            expected = read_deltasql(table, version=version)
            assert read_deltalake(place, version=version) == expected


@pytest.mark.req("R87")
@pytest.mark.parametrize("point", INSIDE)
def test_killed_before_the_commit_nothing_has_changed(contested, point):
    assert repair(contested, {"DELTASQL_CRASH_AT": f"{point}:1"}) == -signal.SIGKILL
    with deltasql.connect(contested) as catalog:
        table = catalog.table("orders")
        assert (table.version, table.state, table.rebased_commits()) == (3, "conflict", [])
        assert [entry.commit_id for entry in table.history(2)] == ["own-11", "own-10"]
    assert repair(contested, {}) == 0
    check(contested)


@pytest.mark.req("R87")
@pytest.mark.parametrize("point", AFTER)
def test_killed_after_the_commit_the_mirror_goes_on_by_itself(contested, point):
    assert repair(contested, {"DELTASQL_CRASH_AT": f"{point}:1"}) == -signal.SIGKILL
    with deltasql.connect(contested) as catalog:
        catalog.mirror.run_once()
    check(contested)
    assert repair(contested, {}) == 0  # the operator, who did not see the end, says it again
    check(contested)


def test_killed_with_checkpoints_of_the_old_numbers_a_plain_repair_writes_them(
    catalog_uri, tmp_path
):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(3):
            table.append(rows(number))
        catalog.mirror.checkpoint("orders", 3)
        put_foreign(table, 3, a_foreign_file(table, 100))
    code = repair(catalog_uri, {"DELTASQL_CRASH_AT": "after-renumber-commit:1"})
    assert code == -signal.SIGKILL
    with deltasql.connect(catalog_uri) as catalog:
        found = [str(one.difference) for one in catalog.mirror.verify("orders")]
        assert found == ["changed_file"]
        assert all(one.done for one in some(catalog.mirror.repair("orders")))
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")
        assert ids(catalog.table("orders")) == [0, 1, 2, 100]


def test_two_operators_at_once_settle_it_once(contested):
    both = [start("adopt_contested", contested) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert any(process.returncode == 0 for process in both), errors
    assert repair(contested, {}) == 0
    check(contested)
