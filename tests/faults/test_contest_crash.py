"""kill -9 while a contest is settled: no number changes, nothing is doubled, and it is repeated."""

import signal

import pytest

import deltasql
from builders import a_table, ids, rows
from contests import check_settled, contest, saved
from deltasql.testing import inspect
from processes import start

pytestmark = [pytest.mark.verify, pytest.mark.req("R87")]

LOG_POINTS = [
    "foreign-kept-aside",
    "foreign-taken-away",
    "foreign-replaced",
    "before-put",
    "after-put",
    "before-batch-status",
]
SQL_POINTS = ["after-version-row", "before-recommit-commit", "after-recommit-commit"]


@pytest.fixture
def contested(catalog_uri, tmp_path):
    """Versions 2 and 3 were made twice, and the foreign writer went on to 4."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        contest(table, ours=(10, 11), theirs=(100, 101, 102))
    return catalog_uri


def settle(uri: str, way: str, **env: str) -> int:
    process = start("settle_contest", uri, way, env={"DELTASQL_TESTING": "1", **env})
    _, err = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode


def end_leases(uri: str) -> None:
    """Let the minute pass that a killed repair keeps others out."""
    with deltasql.connect(uri) as catalog:
        database = inspect(catalog).database
        with database.write() as tx:
            text = f"update dl_leases set expires_at = {database.queries.constants['long_ago']}"
            tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())


def check(uri: str, way: str) -> None:
    theirs = [100, 101, 102] if way == "recommit" else []
    with deltasql.connect(uri) as catalog:
        table = catalog.table("orders")
        assert (table.version, ids(table)) == (3 + len(theirs), [1, 10, 11, *theirs])
        assert len(saved(table)) == 3
        check_settled(catalog, table, acknowledged={"own-10": 2, "own-11": 3})


@pytest.mark.parametrize(
    ("way", "point"),
    [("replace", point) for point in LOG_POINTS]
    + [("recommit", point) for point in (*SQL_POINTS, *LOG_POINTS)],
)
def test_killed_at_any_point_it_is_said_again(contested, way, point):
    assert settle(contested, way, DELTASQL_CRASH_AT=f"{point}:1") == -signal.SIGKILL
    end_leases(contested)
    assert settle(contested, way) == 0
    check(contested, way)


def test_two_operators_at_once_settle_it_once(contested):
    both = [start("settle_contest", contested, "recommit") for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    assert any(process.returncode == 0 for process in both), errors
    assert settle(contested, "recommit") == 0
    check(contested, "recommit")
