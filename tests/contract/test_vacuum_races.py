"""Vacuum beside writers, clones and crashes: what is marked in SQL first is what goes, no more."""

import os
from datetime import timedelta

import pytest

import deltasql
from aging import DAY, Stage
from builders import NO_MIRROR, a_remove, a_table, an_add, ids, rows
from deltasql.api.write.in_flight import NOTED_AFTER_S
from deltasql.errors import (
    BadArgumentError,
    CatalogUnavailableError,
    OwnershipError,
    VacuumedError,
)
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants


@pytest.fixture
def stage(catalog_uri, tmp_path):
    made = Stage(catalog_uri, tmp_path)
    yield made
    made.catalog.close()


def test_files_of_a_long_transaction_stay_until_it_ends(stage, monkeypatch):
    ticks = {"s": 0.0}
    in_flight = inspect(stage.catalog).in_flight
    monkeypatch.setattr(in_flight, "monotonic", lambda: ticks["s"])
    with stage.catalog.transaction() as tx:
        tx.table("orders").append(rows(7))
        (written,) = stage.files()
        ticks["s"] = NOTED_AFTER_S + 1
        in_flight.note_slow()
        stage.pass_days(30)
        in_flight.note_slow()
        moment = (stage.now - 29 * DAY) / 1000
        os.utime(stage.place / written, (moment, moment))
        assert stage.vacuum() == set()
    assert ids(stage.table) == [7]
    assert inspect(stage.catalog).database.fetch_all(
        "oldest_open_work", table_id=stage.table.table_id, now=stage.now
    ) == [(None,)]


def test_a_writer_that_was_silent_for_too_long_commits_nothing(stage, monkeypatch):
    ticks = {"s": 0.0}
    in_flight = inspect(stage.catalog).in_flight
    monkeypatch.setattr(in_flight, "monotonic", lambda: ticks["s"])
    with pytest.raises(deltasql.errors.DeltaSqlError) as caught, stage.catalog.transaction() as tx:
        tx.table("orders").append(rows(7))
        (written,) = stage.files()
        moment = stage.now / 1000
        os.utime(stage.place / written, (moment, moment))
        stage.pass_days(30)
        assert stage.vacuum() == {written}
    assert "gone" in caught.value.message
    assert stage.table.version == 0


def test_a_note_that_vacuum_gave_up_refuses_the_commit(stage, monkeypatch):
    """The writer was noted, then stopped for so long that its note expired during its commit."""
    ticks = {"s": 0.0}
    in_flight = inspect(stage.catalog).in_flight
    monkeypatch.setattr(in_flight, "monotonic", lambda: ticks["s"])
    committer = inspect(stage.catalog).metastore.committer
    commit = committer.commit

    def stop_then_commit(requests, **options):
        stage.pass_days(1)
        assert stage.vacuum() == set()  # forgets the note; the files are young still
        return commit(requests, **options)

    monkeypatch.setattr(type(committer), "commit", lambda _, *a, **k: stop_then_commit(*a, **k))
    with pytest.raises(VacuumedError, match="not heard of"), stage.catalog.transaction() as tx:
        tx.table("orders").append(rows(7))
        ticks["s"] = NOTED_AFTER_S + 1
    assert stage.table.version == 0


@pytest.mark.parametrize("trick", ["marker", "ahead"])
def test_a_log_that_is_not_ours_alone_keeps_everything(stage, trick):
    """A cloned database: the other copy has gone on with the log."""
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    stage.pass_days(30)
    if trick == "marker":
        marker = (stage.place / OWNER_KEY).read_bytes()
        (stage.place / OWNER_KEY).write_bytes(marker.replace(b'"epoch":1', b'"epoch":2'))
    else:
        (stage.place / commit_key(3)).write_bytes(b"{}")
    with pytest.raises(OwnershipError):
        stage.vacuum()
    assert stage.files() == {"gone.parquet"}


class StopError(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    ("point", "passages"),
    [
        ("before-vacuum-marks", 1),
        ("after-vacuum-marks", 1),
        ("after-vacuum-delete", 1),
        ("after-vacuum-delete", 3),
        ("after-vacuum-unmark", 1),
    ],
)
def test_a_vacuum_cut_short_is_finished_by_the_next(stage, point, passages):
    gone = [stage.add(f"gone-{number}.parquet") for number in range(5)]
    kept = stage.add("kept.parquet")
    stage.table.commit([*gone, kept])
    stage.table.commit([a_remove(add) for add in gone])
    stage.pass_days(8)
    passed = []

    def stop(name: str) -> None:
        passed.append(name)
        if passed.count(point) == passages and name == point:
            raise StopError

    with hooked(stop), pytest.raises(StopError):
        stage.vacuum()
    marked = point != "before-vacuum-marks"
    if marked:
        with pytest.raises(VacuumedError):
            stage.table.scan(version=1).to_arrow()
        with pytest.raises(VacuumedError):
            stage.table.restore(version=1)
    if marked and point != "after-vacuum-unmark":
        with pytest.raises(VacuumedError, match="is being deleted by vacuum"):
            stage.table.commit([an_add("gone-4.parquet", day=None, partition_values={})])
    stage.table.commit([stage.add("fresh.parquet")])  # others go on
    stage.now += 2 * 60 * 1000  # the lease of the killed one is over
    stage.vacuum()
    assert stage.files() == {"kept.parquet", "fresh.parquet"}
    row = inspect(stage.catalog).metastore.table("orders")
    assert not row.is_vacuuming
    check_invariants(stage.catalog, "orders")


def test_a_clone_made_while_vacuum_runs_is_refused_or_spared(stage):
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    clone = a_table(stage.catalog, stage.tmp_path, "clone", partition_by=[])
    path = (stage.place / "gone.parquet").as_uri()
    stage.pass_days(8)
    seen = []

    def commit_clone(name: str) -> None:
        if name == "after-vacuum-marks":
            with pytest.raises(VacuumedError, match=r"gone\.parquet is being deleted"):
                clone.commit([an_add(path, day=None, partition_values={})])
            seen.append(name)

    with hooked(commit_clone):
        assert stage.vacuum() == {"gone.parquet"}
    assert seen == ["after-vacuum-marks"]
    assert clone.version == 0


def test_what_is_committed_between_plan_and_mark_stays(stage, monkeypatch):
    from deltasql.maintenance.vacuum_store import VacuumStore

    stage.put("left.parquet")
    stage.put("other.parquet")
    stage.pass_days(30)
    mark = VacuumStore.mark

    def commit_then_mark(self, *arguments):
        if stage.table.version == 0:
            stage.table.commit([an_add("left.parquet", day=None, partition_values={})])
        return mark(self, *arguments)

    monkeypatch.setattr(VacuumStore, "mark", commit_then_mark)
    assert stage.vacuum() == {"other.parquet"}
    assert stage.files() == {"left.parquet"}


def test_change_data_of_versions_within_retention_stays(stage):
    stage.put("_change_data/old.parquet")
    stage.put("_change_data/new.parquet")
    change = {"path": "_change_data/old.parquet", "size": 1, "dataChange": False}
    stage.table.commit([{"cdc": {**change, "partitionValues": {}}}, stage.add("a.parquet")])
    stage.table.commit([stage.add("c.parquet")])
    stage.pass_days(30)
    later = {**change, "path": "_change_data/new.parquet", "partitionValues": {}}
    stage.table.commit([{"cdc": later}, stage.add("b.parquet")])
    assert stage.vacuum() == {"_change_data/old.parquet"}


def test_a_table_without_a_mirror_keeps_what_was_removed_since(catalog_uri, tmp_path):
    stage = Stage(catalog_uri, tmp_path, settings=NO_MIRROR)
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    stage.pass_days(30)
    stage.put("left.parquet", age_days=20)
    assert stage.vacuum() == {"left.parquet"}
    assert stage.files() == {"gone.parquet"}
    stage.catalog.close()


def a_change(path):
    return {"cdc": {"path": path, "size": 1, "dataChange": False, "partitionValues": {}}}


@pytest.mark.parametrize("moment", ["horizon", "mark"])
def test_change_data_committed_while_vacuum_plans_stays(stage, monkeypatch, moment):
    from deltasql.maintenance.vacuum_store import VacuumStore

    stage.put("_change_data/slow.parquet")
    stage.put("_change_data/left.parquet")
    stage.pass_days(30)
    whole = getattr(VacuumStore, moment)

    def commit_first(self, *arguments, **options):
        if stage.table.version == 0:
            stage.table.commit([a_change("_change_data/slow.parquet"), stage.add("a.parquet")])
        return whole(self, *arguments, **options)

    monkeypatch.setattr(VacuumStore, moment, commit_first)
    assert stage.vacuum() == {"_change_data/left.parquet"}
    assert stage.files() == {"_change_data/slow.parquet", "a.parquet"}


def test_change_data_that_is_being_deleted_is_refused_to_a_commit(stage):
    stage.put("_change_data/left.parquet")
    stage.pass_days(30)
    seen = []

    def commit(name):
        if name == "after-vacuum-marks":
            with pytest.raises(VacuumedError, match=r"left\.parquet is being deleted"):
                stage.table.commit([a_change("_change_data/left.parquet"), an_add("a", day=None)])
            seen.append(name)

    with hooked(commit):
        assert stage.vacuum() == {"_change_data/left.parquet"}
    assert seen == ["after-vacuum-marks"]
    assert stage.table.version == 0


def test_files_of_a_noted_write_stay_where_its_clock_and_the_stores_differ(stage):
    stage.put("young.parquet")
    stage.put("old.parquet", age_days=1)
    with inspect(stage.catalog).database.write() as tx:
        tx.execute(
            "note_open_work",
            table_id=stage.table.table_id,
            purpose="write:1",
            holder="h",
            started_at=stage.now + 50 * 60 * 1000,  # this clock is ahead of the store's
            expires_at=2**53,
        )
    stage.pass_days(30)
    assert stage.vacuum() == {"old.parquet"}


def test_a_negative_retention_is_refused(stage):
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    for dry_run in (True, False):
        with pytest.raises(BadArgumentError, match="negative"):
            stage.table.vacuum(
                dry_run=dry_run, retain=timedelta(seconds=-1), allow_short_retention=True
            )
    with pytest.raises(BadArgumentError, match="cannot be kept for"):
        stage.catalog.forget_history("orders", timedelta(days=-1))
    assert stage.files() == {"gone.parquet"}


def test_a_commit_stands_where_the_note_of_its_write_cannot_be_taken_away(stage, monkeypatch):
    """A note expires by itself; a caller that was told of an error would write twice."""
    ticks = {"s": 0.0}
    in_flight = inspect(stage.catalog).in_flight
    database = type(in_flight.database)
    real, refused = database.write, []

    def write(self, *, durable=True):
        if durable:
            return real(self)
        refused.append(self)
        raise CatalogUnavailableError("The database does not answer.")

    monkeypatch.setattr(in_flight, "monotonic", lambda: ticks["s"])
    with stage.catalog.transaction() as tx:
        tx.table("orders").append(rows(7))
        ticks["s"] = NOTED_AFTER_S + 1
        in_flight.note_slow()
        monkeypatch.setattr(database, "write", write)
        assert tx.commit() == {"orders": 1}
    monkeypatch.undo()
    assert refused
    assert ids(stage.table) == [7]
