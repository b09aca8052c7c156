"""Drop and purge beside vacuum: a dropped table is not a purged one, whatever vacuum was doing."""

import signal
from datetime import timedelta
from pathlib import Path

import pytest

import deltasql
import processes
from aging import Stage
from builders import a_remove, a_table, an_add, ids, paths, rows
from deltasql.errors import LeaseLostError, TableStateError, VacuumedError
from deltasql.maintenance.vacuum import Vacuum
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from hooks import once

GONE = {f"gone-{number}.parquet" for number in range(3)}
MARKED = ["after-vacuum-marks", "after-vacuum-delete"]


class StopError(Exception):
    """The process ends here."""


@pytest.fixture
def stage(catalog_uri, tmp_path):
    """A table with a live file and three that vacuum will delete."""
    made = Stage(catalog_uri, tmp_path)
    gone = [made.add(name) for name in sorted(GONE)]
    made.table.commit([*gone, made.add("kept.parquet")])
    made.table.commit([a_remove(add) for add in gone])
    made.pass_days(8)
    yield made
    made.catalog.close()


@pytest.fixture
def other(stage):
    """Another process, as far as the catalog can tell."""
    with deltasql.connect(stage.uri, clock=lambda: stage.now) as opened:
        yield opened


def stop():
    raise StopError


def cut_short(stage, point="after-vacuum-marks"):
    with hooked(once(point, stop)), pytest.raises(StopError):
        stage.vacuum()


def book_row(stage):
    return inspect(stage.catalog).metastore.table_by_id(stage.table.table_id)


def require_finished(stage):
    """The next vacuum ends what was begun; commits need not look at marks any more."""
    assert book_row(stage).is_vacuuming
    with pytest.raises(VacuumedError, match="is being deleted by vacuum"):
        stage.table.commit([an_add("gone-2.parquet", day=None, partition_values={})])
    stage.vacuum()
    assert stage.files() == {"kept.parquet"}
    assert not book_row(stage).is_vacuuming
    assert (
        inspect(stage.catalog).database.fetch_all(
            "vacuum_marks", table_id=stage.table.table_id, most=1
        )
        == []
    )
    stage.table.commit([stage.add("fresh.parquet")])
    assert paths(stage.table) == {"kept.parquet", "fresh.parquet"}
    check_invariants(stage.catalog, "orders")


@pytest.mark.parametrize("point", MARKED)
def test_a_table_dropped_behind_a_vacuum_that_was_cut_short_comes_back(stage, point):
    cut_short(stage, point)
    stage.catalog.drop("orders")
    [dropped] = stage.catalog.dropped_tables()
    assert (dropped.is_purged, dropped.state) == (False, TableState.ACTIVE)
    stage.catalog.undrop_table("orders")
    assert paths(stage.table) == {"kept.parquet"}
    require_finished(stage)


@pytest.mark.parametrize("point", MARKED)
@pytest.mark.parametrize("is_back", [False, True])
def test_a_drop_ends_the_vacuum_of_another_process(stage, other, point, is_back):
    """Neither before the undrop nor behind it does that vacuum change anything in SQL."""

    def drop():
        other.drop("orders")
        if is_back:
            other.undrop_table("orders")

    hook = once(point, drop)
    with hooked(hook), pytest.raises(LeaseLostError):
        stage.vacuum()
    assert hook.passed
    if not is_back:
        [dropped] = stage.catalog.dropped_tables()
        assert (dropped.is_purged, dropped.state) == (False, TableState.ACTIVE)
        stage.catalog.undrop_table("orders")
    require_finished(stage)


def test_a_vacuum_behind_an_undrop_is_not_mistaken_for_the_one_before_the_drop(stage):
    """Both are of one process: only the number of the lease tells them apart."""
    leases, taken = inspect(stage.catalog).connection.leases, []

    def drop():
        stage.catalog.drop("orders")
        stage.catalog.undrop_table("orders")
        taken.append(leases.acquire(stage.table.table_id, "vacuum"))

    with hooked(once("after-vacuum-delete", drop)), pytest.raises(LeaseLostError):
        stage.vacuum()
    leases.renew(taken[0])
    leases.release(taken[0])
    require_finished(stage)


def test_a_vacuum_of_a_table_that_was_just_dropped_deletes_nothing(stage, other, monkeypatch):
    cut_short(stage)
    run = Vacuum.run

    def drop_then_run(self, *arguments):
        other.drop("orders")
        return run(self, *arguments)

    monkeypatch.setattr(Vacuum, "run", drop_then_run)
    with pytest.raises(TableStateError, match="was dropped"):
        stage.vacuum()
    assert stage.files() == {"kept.parquet", *GONE}


def test_a_clone_of_what_the_vacuum_of_a_dropped_table_marked_is_refused(stage):
    """Vacuum deletes it when the table is back."""
    clone = a_table(stage.catalog, stage.tmp_path, "clone", partition_by=[])

    def commit(name):
        path = (stage.place / name).as_uri()
        return clone.commit([an_add(path, day=None, partition_values={})])

    cut_short(stage)
    stage.catalog.drop("orders")
    with pytest.raises(VacuumedError, match=r"gone-1\.parquet is being deleted"):
        commit("gone-1.parquet")
    assert commit("kept.parquet") == 1
    stage.catalog.undrop_table("orders")
    require_finished(stage)


def test_the_log_of_a_table_dropped_behind_a_vacuum_that_was_cut_short_is_imported(stage):
    cut_short(stage)
    stage.catalog.drop("orders")
    stage.catalog.import_table(stage.table.location, "again", engine="local")
    assert paths(stage.catalog.table("again")) == {"kept.parquet"}


@pytest.mark.parametrize("point", ["before-put", "after-put", "before-mirror-status"])
def test_a_commit_that_is_mirrored_while_its_table_is_dropped_stays_in_the_log(stage, other, point):
    cut_short(stage)
    hook = once(point, lambda: other.drop("orders", force=True))
    with hooked(hook):
        assert stage.table.commit([stage.add("fresh.parquet")]) == 3
    assert hook.passed
    assert (stage.place / commit_key(3)).exists()
    stage.catalog.undrop_table("orders")
    assert paths(stage.table) == {"kept.parquet", "fresh.parquet"}
    check_invariants(stage.catalog, "orders")


@pytest.mark.parametrize("batch", [False, True])
def test_a_worker_leaves_in_the_log_what_it_put_while_the_table_was_dropped(stage, other, batch):
    cut_short(stage)
    stage.catalog.mirror.pause("orders")
    for number in range(2 if batch else 1):
        stage.table.commit([stage.add(f"fresh-{number}.parquet")])
    stage.catalog.mirror.resume("orders")
    engine, row = inspect(stage.catalog).engine, book_row(stage)
    hook = once("before-put", lambda: other.drop("orders", force=True))
    with hooked(hook):
        if batch:
            engine.mirror_batch(row)
        else:
            engine.mirror_version(row, 3)
    assert hook.passed
    assert (stage.place / commit_key(4 if batch else 3)).exists()
    stage.catalog.undrop_table("orders")
    check_invariants(stage.catalog, "orders")


@pytest.mark.parametrize("point", MARKED)
def test_a_table_purged_while_another_process_vacuums_it_stays_purged(stage, other, point):
    clone = a_table(stage.catalog, stage.tmp_path, "clone", partition_by=[])
    hook = once(point, lambda: other.drop("orders", purge=True))
    with hooked(hook), pytest.raises(LeaseLostError):
        stage.vacuum()
    assert hook.passed
    assert stage.files() == set()
    [dropped] = stage.catalog.dropped_tables()
    assert (dropped.is_purged, dropped.state) == (True, None)
    with pytest.raises(TableStateError, match="was purged"):
        stage.catalog.undrop_table("orders")
    path = (stage.place / "kept.parquet").as_uri()
    with pytest.raises(VacuumedError, match="was purged"):
        clone.commit([an_add(path, day=None, partition_values={})])


def test_a_table_purged_behind_a_vacuum_that_was_cut_short_leaves_no_mark(stage):
    cut_short(stage)
    stage.catalog.drop("orders", purge=True)
    row = book_row(stage)
    assert (row.is_purged, row.is_vacuuming) == (True, False)


@pytest.mark.parametrize("point", ["before-vacuum-marks", *MARKED, "after-vacuum-unmark"])
def test_a_process_killed_in_vacuum_leaves_a_table_that_drops_and_comes_back(
    catalog, table, catalog_uri, point
):
    table.append(rows(1))
    table.delete("day = 'a'")
    table.append(rows(2))
    table.wait_mirrored(timeout=10)
    env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:1"}
    process = processes.start("vacuum", catalog_uri, "orders", env=env)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    catalog.drop("orders")
    back = catalog.undrop_table("orders")
    assert ids(back) == [2]
    # the drop revoked the lease of the dead process: nobody waits for it
    back.vacuum(retain=timedelta(0), allow_short_retention=True, dry_run=False)
    folder = Path(back.location.removeprefix("file://"))
    found = {str(file.relative_to(folder)) for file in folder.rglob("*.parquet")}
    assert found == paths(back)
    back.append(rows(3))
    back.wait_mirrored(timeout=10)
    assert ids(back) == [2, 3]
    check_invariants(catalog, "orders")
