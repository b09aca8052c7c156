"""Retention of the catalog: old versions are forgotten, and everything since stays what it is."""

from datetime import timedelta
from pathlib import Path

import pytest

import deltasql
from aging import DAY, Stage
from builders import an_add, ids, paths, rows
from deltasql.errors import CommitConflictError, VersionNotFoundError
from deltasql.metastore.retention import Forgetting
from deltasql.protocol.actions import DomainMetadata, Txn
from deltasql.protocol.log_names import checkpoint_path
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql

HUNDRED_DAYS = timedelta(days=100)
LOG_FLOOR, NEWEST = 35, 48
ONE_CHECKPOINT = Settings(mirror=MirrorSettings(checkpoint_interval=1_000_000))


@pytest.fixture
def stage(catalog_uri, tmp_path):
    """A commit every third day for 132 days, domains now and then; the log begins at LOG_FLOOR."""
    made = Stage(catalog_uri, tmp_path, settings=ONE_CHECKPOINT)
    table = made.table
    for number in range(1, 45):
        made.pass_days(3)
        if number % 5 == 0:
            table.overwrite(rows(number), txn=("loader", number))
        else:
            table.append(rows(number))
        if number % 10 == 0:
            table.commit([DomainMetadata(domain="d", configuration=str(number), removed=False)])
    made.catalog.mirror.checkpoint("orders", LOG_FLOOR)
    made.pass_days(36)
    made.catalog.mirror.cleanup("orders")
    assert inspect(made.catalog).metastore.table("orders").log_floor == LOG_FLOOR
    yield made
    made.catalog.close()


def state(stage, version):
    snapshot = stage.table.snapshot(version=version)
    files = snapshot.files(["path", "stats", "partition_values", "size"]).to_pylist()
    found = sorted(files, key=lambda file: file["path"])
    return snapshot.metadata, snapshot.protocol, snapshot.txns(), snapshot.domains(), found


@pytest.mark.req("R92")
def test_old_versions_go_and_the_rest_stays_what_it_was(stage):
    before = {version: state(stage, version) for version in range(NEWEST + 1)}
    plan = stage.catalog.forget_history("orders", HUNDRED_DAYS)
    assert plan.versions == plan.floor > 20
    assert stage.table.snapshot(version=0).version == 0  # it was only a plan
    stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False)
    assert {v: state(stage, v) for v in range(plan.floor, NEWEST + 1)} == {
        v: found for v, found in before.items() if v >= plan.floor
    }
    assert len(stage.table.history()) == NEWEST + 1 - plan.floor
    with pytest.raises(VersionNotFoundError, match=f"it has {plan.floor} to {NEWEST}"):
        stage.table.snapshot(version=plan.floor - 1)
    with pytest.raises(VersionNotFoundError):
        stage.table.snapshot(timestamp=stage.now - 150 * DAY)
    with pytest.raises(VersionNotFoundError, match="has forgotten what came before"):
        stage.table.changes(3, 9)
    check_invariants(stage.catalog, "orders")
    assert stage.catalog.mirror.verify("orders") == []
    assert stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False).versions == 0


def test_filters_find_the_same_files_as_before(stage):
    """Statistics of live files must not go with those of forgotten ones."""
    wanted = {f"id = {n}": ids(stage.table, where=f"id = {n}") for n in (1, 41, 44)}
    stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False)
    assert {where: ids(stage.table, where=where) for where in wanted} == wanted
    assert wanted["id = 44"] == [44]


def test_what_the_log_still_shows_is_never_forgotten(stage):
    plan = stage.catalog.forget_history("orders", timedelta(days=1), dry_run=False)
    assert plan.floor == LOG_FLOOR
    check_invariants(stage.catalog, "orders")
    assert stage.catalog.mirror.verify("orders") == []  # its checkpoint holds older tombstones
    for read in READERS.values():
        assert read(str(stage.place)) == read_deltasql(stage.table)
    stage.table.append(rows(999))
    check_invariants(stage.catalog, "orders")


def test_to_forget_again_spares_the_tombstones_that_the_log_still_has(stage):
    """The times of the versions that were forgotten are unknown by then."""
    for _ in range(2):
        stage.catalog.forget_history("orders", timedelta(days=1), dry_run=False)
    check_invariants(stage.catalog, "orders")


def test_a_commit_on_a_forgotten_version_is_refused(stage):
    refused = pytest.raises(CommitConflictError, match="is forgotten")
    with refused, stage.catalog.transaction() as tx:
        orders = tx.table("orders")
        old = stage.table.snapshot(version=10)
        orders.snapshot = old
        orders._read = type(orders._read)(10, whole_table=True)
        (live, *_) = stage.table.snapshot().files(["path"]).column("path").to_pylist()
        stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False)
        orders.commit([{"remove": {"path": live, "dataChange": True}}])


@pytest.mark.req("R41")
def test_an_append_by_a_handle_from_before_a_forgotten_change_of_rules(catalog, table):
    """What changed the rules is forgotten: the append is made on the newest version."""
    old = catalog.table("orders")
    old.commit([an_add("f0")])
    for change in ({"a.b": "c"}, {"a.b": "d"}):
        table.alter(properties=change)
    table.commit([an_add("f1")])
    row = table.refresh()
    forgetting = Forgetting(table.snapshot().database)
    forgetting.run(row, forgetting.plan_below(row, row.current_version, tombstones=timedelta(0)))
    assert old.commit([an_add("f2")]) == row.current_version + 1
    assert {"f0", "f1", "f2"} <= paths(table)


def test_files_of_a_version_that_is_forgotten_meanwhile_are_refused(stage):
    """A snapshot that was opened before would list fewer files than it has."""
    old = stage.table.snapshot(version=10)
    assert old.files(["path"]).num_rows
    stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False)
    for listed in (
        lambda: old.files(["path"]),
        lambda: old.files(["path"], where="id = 1"),
        lambda: old.files_named(["x"], ["path"]),
        lambda: list(old.stream_files(["path"])),
    ):
        with pytest.raises(VersionNotFoundError, match="has forgotten version 10"):
            listed()


def test_applications_are_remembered(stage):
    stage.catalog.forget_history("orders", timedelta(days=1), dry_run=False)
    holder = 30 + 2  # two commits of domains came before it
    assert stage.table.append(rows(5), txn=("loader", 30)) == holder
    assert stage.table.version == NEWEST
    with pytest.raises(CommitConflictError, match="has already written 40"):
        stage.table.commit([Txn(app_id="loader", version=40)])


def test_a_lost_log_is_rebuilt_from_what_is_left(stage):
    stage.catalog.forget_history("orders", timedelta(days=1), dry_run=False)
    for file in (stage.place / "_delta_log").rglob("*"):
        if file.is_file():
            file.unlink()
    with deltasql.connect(stage.uri, clock=lambda: stage.now) as catalog:
        catalog.new_epoch()
    with deltasql.connect(stage.uri, clock=lambda: stage.now) as catalog:
        catalog.mirror.recover("orders")
        assert (Path(stage.place) / checkpoint_path(NEWEST)).exists()
        for read in READERS.values():
            assert read(str(stage.place)) == read_deltasql(catalog.table("orders"))
        check_invariants(catalog, "orders")


class StopError(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    "point",
    ["before-history-floor", "after-history-floor", "after-forget-files", "after-forget-versions"],
)
def test_a_run_that_was_cut_short_is_finished_by_the_next(stage, point):
    def stop(name: str) -> None:
        if name == point:
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False)
    floor = stage.catalog.forget_history("orders", HUNDRED_DAYS, dry_run=False).floor
    check_invariants(stage.catalog, "orders")
    assert stage.table.history()[-1].version == floor
    assert ids(stage.table) == [40, 41, 42, 43, 44]
