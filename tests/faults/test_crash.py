"""kill -9 at every named point between BEGIN and the mirror's status: the guarantees hold."""

import json
import signal
import subprocess
from itertools import product
from pathlib import Path

import pytest

import deltasql
from builders import NO_MIRROR, ids
from deltasql.testing import inspect
from deltasql.testing.crash_points import declared_points, hooked, traced_points
from deltasql.testing.invariants import check_invariants
from faults.workers import do_crash_work
from processes import start

COMMIT_POINTS = [
    "before-begin",
    "after-begin",
    "after-lock",
    "after-check",
    "after-files",
    "after-version-row",
    "before-commit",
    "after-commit",
    "before-put",
    "storage.local.before_link",
    "storage.local.after_link",
    "after-put",
    "before-mirror-status",
    "after-mirror-status",
]

# Those between BEGIN and COMMIT, which an append by one call does not pass.
SLOW_POINTS = COMMIT_POINTS[: COMMIT_POINTS.index("after-commit") + 1]
# Points of the worker's batches and checkpoints: see test_killed_at_a_point_of_the_worker.
WORKER_POINTS = [
    "before-batch-status",
    "after-batch-status",
    "checkpoint-spooled",
    "checkpoint-verified",
    "before-checkpoint-put",
    "after-checkpoint-put",
    "before-checkpoint-record",
    "after-checkpoint-record",
    "after-last-checkpoint",
]
# A blind append on PostgreSQL passes these instead of those between BEGIN and COMMIT.
FAST_POINTS = ["before-append-call", "after-append-call"]


def _run(uri: str, place, env: dict[str, str]) -> tuple[int, list[tuple[str, str, int]], str]:
    process = start("crash_work", uri, str(place), env={"DELTASQL_TESTING": "1", **env})
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    told = [tuple(json.loads(line)) for line in out.splitlines()]
    return process.returncode, told, err


def test_every_declared_point_is_tried(catalog_uri, tmp_path):
    """A new step that no test names fails this one: no point is forgotten."""
    trace = tmp_path / "trace"
    code, _, err = _run(catalog_uri, tmp_path, {"DELTASQL_CRASH_TRACE": str(trace)})
    assert code == 0, err
    passed = set(traced_points(trace))
    assert set(COMMIT_POINTS) <= passed
    declared = {name for name in declared_points() if "{" not in name}
    unreached = {name for name in declared - passed if not name.startswith("storage.")}
    texts = [file.read_text() for file in Path(__file__).parents[1].rglob("*.py")]
    untried = {name for name in unreached if not any(f'"{name}' in text for text in texts)}
    assert untried == set()


def _work_as_worker(uri: str, place, env: dict[str, str]) -> tuple[int, str]:
    process = start("mirror_work", uri, str(place), env={"DELTASQL_TESTING": "1", **env})
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_killed_at_a_point_of_the_worker(catalog_uri, tmp_path, point):
    """The log and its checkpoints come out right, by the next worker, once the lease is over."""
    code, err = _work_as_worker(catalog_uri, tmp_path, {"DELTASQL_CRASH_AT": f"{point}:1"})
    assert code == -signal.SIGKILL, err
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        catalog.create_if_missing()
        database = inspect(catalog).database
        with database.write() as tx:
            text = f"update dl_leases set expires_at = {database.queries.constants['long_ago']}"
            tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())
    code, err = _work_as_worker(catalog_uri, tmp_path, {})
    assert code == 0, err
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        check_invariants(catalog, "orders")
        assert catalog.mirror.verify("orders") == []
        hint = (tmp_path / "orders" / "_delta_log" / "_last_checkpoint").read_text()
        assert json.loads(hint)["version"] == 6
        assert ids(catalog.table("orders")) == [0, 1, 2, 3, 4, 5]


def _crash(catalog_uri, tmp_path, point: str, passage: int) -> None:
    code, told, err = _run(catalog_uri, tmp_path, {"DELTASQL_CRASH_AT": f"{point}:{passage}"})
    assert code == -signal.SIGKILL, err
    # the work is begun again with the same tokens, and ends as if nothing had been
    again: list[tuple[str, str, int]] = []
    do_crash_work(catalog_uri, str(tmp_path), lambda *commit: again.append(commit))
    with deltasql.connect(catalog_uri) as catalog:
        for name in ("orders", "totals"):
            acknowledged = {
                token: version
                for token, table, version in {*told, *again}
                if table == name and token != "create"
            }
            check_invariants(catalog, name, acknowledged=acknowledged)
        both = [
            entry.transaction_id
            for name in ("orders", "totals")
            for entry in catalog.table(name).history()
            if entry.commit_id == "both"
        ]
        assert len(both) == 2
        assert both[0] == both[1]
        assert ids(catalog.table("orders")) == [7]
        assert ids(catalog.table("totals")) == [70, 71]


@pytest.mark.parametrize("point", ["after-lock", "before-commit", "after-commit", "after-put"])
def test_killed_at_a_point_of_an_append(catalog_uri, tmp_path, point):
    _crash(catalog_uri, tmp_path, point, 3)


@pytest.mark.parametrize("passage", [1, 2])
@pytest.mark.parametrize("point", FAST_POINTS)
def test_killed_at_a_point_of_an_append_by_one_call(postgres_server, tmp_path, point, passage):
    _crash(postgres_server.uri(postgres_server.create_database_name()), tmp_path, point, passage)


@pytest.mark.req("R84")
def test_killed_between_the_mirrors_of_two_tables(catalog_uri, tmp_path):
    """SQL has both commits, the log follows, and a read by time sees both or none."""
    code, told, err = _run(catalog_uri, tmp_path, {"DELTASQL_CRASH_AT": "before-put:6"})
    assert code == -signal.SIGKILL, err
    assert ("both", "orders", 3) not in told
    with deltasql.connect(catalog_uri) as catalog:
        orders, totals = catalog.table("orders"), catalog.table("totals")
        assert (orders.version, totals.version) == (3, 1)
        status = [catalog.mirror.status(name)["mirrored_through"] for name in ("orders", "totals")]
        assert status in ([3, 0], [2, 1], [2, 0])  # they are mirrored side by side
        moment = orders.history(1)[0].committed_at
        assert totals.history(1)[0].committed_at == moment
        at, before = moment, moment - 1
        assert ids(orders, timestamp=at) == [0, 1, 7]
        assert ids(totals, timestamp=at) == [70]
        assert ids(orders, timestamp=before) == [0, 1]
        assert ids(totals, timestamp=before) == []
        for name in ("orders", "totals"):
            check_invariants(catalog, name)


SINGLE = {
    "after-rename": lambda catalog: catalog.rename("totals", "sums"),
    "before-drop": lambda catalog: catalog.drop("totals"),
    "before-drop-commit": lambda catalog: catalog.drop("totals"),
    "before-purge": lambda catalog: catalog.drop("totals", purge=True),
}


@pytest.mark.parametrize("point", list(SINGLE))
def test_crash_of_single_statements(catalog_uri, tmp_path, point):
    """Rename and drop are there whole or not at all, and can be repeated."""

    class StopError(Exception):
        pass

    def stop(name: str) -> None:
        if name == point:
            raise StopError

    do_crash_work(catalog_uri, str(tmp_path), lambda *_: None)
    with deltasql.connect(catalog_uri) as catalog:
        with hooked(stop), pytest.raises(StopError):
            SINGLE[point](catalog)
        names = {info.name for info in catalog.tables()}
        assert names == ({"orders"} if point == "before-purge" else {"orders", "totals"})
        if "totals" in names:
            check_invariants(catalog, "totals")
            SINGLE[point](catalog)
            assert "totals" not in {info.name for info in catalog.tables()}


@pytest.mark.verify
@pytest.mark.parametrize("point", COMMIT_POINTS)
def test_killed_at_every_point_of_an_append(catalog_uri, tmp_path, point):
    _crash(catalog_uri, tmp_path, point, 3)


def _taking_turns():
    """Yield each point of each commit; one database verifies it, both are in the soak."""
    for number, (point, passage) in enumerate(product(COMMIT_POINTS, [1, 5, 6])):
        for turn, database in enumerate(["sqlite", "postgres"]):
            mark = pytest.mark.verify if number % 2 == turn else pytest.mark.soak
            yield pytest.param(database, point, passage, marks=mark)


@pytest.mark.parametrize(
    ("catalog_uri", "point", "passage"), list(_taking_turns()), indirect=["catalog_uri"]
)
def test_killed_at_a_point_of_any_commit(catalog_uri, tmp_path, point, passage):
    if "sqlite" not in catalog_uri and passage == 6 and point in SLOW_POINTS:
        passage = 4  # the appends pass FAST_POINTS there: five commits pass these
    _crash(catalog_uri, tmp_path, point, passage)
