"""The first mirror: in order, exactly once, never failing a commit, stopping at foreign bytes."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import deltasql
import servers
from builders import NO_MIRROR, a_table, an_add, rows
from deltasql.errors import MirrorLagError, OwnershipError, TableStateError
from deltasql.events import MirrorConflicted, MirrorFailed, TableFenced, VersionMirrored
from deltasql.mirror.engine import Mirrored
from deltasql.mirror.queue import MirrorState
from deltasql.protocol.log_names import commit_key
from deltasql.settings import Settings
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from deltasql.testing.invariants import check_invariants

LOST_REPLIES = [Kind.FAIL_AFTER, Kind.EXISTS_THOUGH_OURS, Kind.EXISTS_WITHOUT_EFFECT]


@pytest.fixture
def events():
    return []


@pytest.fixture
def faults():
    """Stores that are opened while this list holds faults suffer them."""
    return []


@pytest.fixture
def catalog(catalog_uri, events, faults):
    def wrap(store):
        return _Switched(store, faults)

    with deltasql.connect(catalog_uri, sink=events.append, wrap_store=wrap) as opened:
        opened.create_if_missing()
        yield opened


class _Switched:
    """Asks the list of faults anew at each call, so that a test may switch them on and off."""

    def __init__(self, inner, faults):
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name):
        if self._faults:
            return getattr(FaultyStore(self._inner, tuple(self._faults)), name)
        return getattr(self._inner, name)


def _log(table) -> list[str]:
    folder = Path(table.location.removeprefix("file://")) / "_delta_log"
    return sorted(file.name for file in folder.glob("*.json"))


@pytest.mark.req("R32")
@pytest.mark.req("R12")
def test_a_store_that_is_down_never_fails_a_commit(catalog, events, faults, tmp_path):
    table = a_table(catalog, tmp_path)
    faults.append(Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**6))
    assert table.commit([an_add("f1")]) == 1
    assert table.commit([an_add("f2")]) == 2
    assert _log(table) == [f"{0:020d}.json"]
    status = catalog.mirror.status("orders")
    assert (status["mirrored_through"], status["lag_versions"]) == (0, 2)
    assert status["retry_count"] == 1
    assert "DS404" in status["error"]
    assert any(isinstance(event, MirrorFailed) for event in events)
    faults.clear()
    table.wait_mirrored()
    check_invariants(catalog, "orders")
    assert catalog.mirror.status("orders")["status"] == "SUCCESS"


@pytest.mark.req("R9")
@pytest.mark.req("R10")
@pytest.mark.parametrize("kind", LOST_REPLIES)
def test_a_put_that_landed_with_its_reply_lost_is_no_conflict(catalog, faults, tmp_path, kind):
    table = a_table(catalog, tmp_path)
    faults.append(Fault(kind, "put_if_absent", times=1))
    table.commit([an_add("f")])
    faults.clear()
    table.wait_mirrored()
    assert table.state == "active"
    check_invariants(catalog, "orders")


@pytest.mark.req("R28")
@pytest.mark.req("R87")
def test_foreign_bytes_stop_the_table_and_stay_untouched(catalog, events, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    foreign = b'{"commitInfo":{"timestamp":1}}\n'
    key = tmp_path / table.location.rsplit("/", 1)[-1] / commit_key(2)
    key.write_bytes(foreign)
    assert table.commit([an_add("ours")]) == 2
    assert table.state == "conflict"
    assert key.read_bytes() == foreign
    with pytest.raises(TableStateError, match="SQL does not know"):
        table.commit([an_add("next")])
    conflict = next(event for event in events if isinstance(event, MirrorConflicted))
    assert (conflict.key, conflict.version, conflict.error_code) == (commit_key(2), 2, "DS501")
    tracker = inspect(catalog).queue
    status = tracker.get_status(table.table_id, 2)
    assert status.status is MirrorState.FAILED
    assert commit_key(2) in status.error_message


@pytest.mark.req("R53")
def test_no_version_is_put_before_its_predecessor(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.commit([an_add("f1")])
        table.commit([an_add("f2")])
        engine, row = inspect(catalog).engine, table.refresh()
        assert engine.mirror_version(row, 2).outcome is Mirrored.BLOCKED
        assert engine.mirror_version(row, 0).outcome is Mirrored.DONE
        assert engine.mirror_version(table.refresh(), 0).outcome is Mirrored.ALREADY
        assert engine.mirror_version(table.refresh(), 1).outcome is Mirrored.DONE
        assert _log(table) == [f"{number:020d}.json" for number in (0, 1)]


def test_every_version_is_told_once(catalog, events, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    told = [(event.version, event.key) for event in events if isinstance(event, VersionMirrored)]
    assert told == [(0, commit_key(0)), (1, commit_key(1))]


def test_a_clone_of_the_database_is_found_by_the_owner_marker(tmp_path):
    """Another catalog that claims the same place finds the marker and writes nothing."""
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/one.db") as one:
        table = a_table(one, tmp_path)
        table.append(rows(1))
        place = tmp_path / table.location.rsplit("/", 1)[-1] / "_delta_log"
        before = {file.name: file.read_bytes() for file in place.iterdir()}
    events = []
    # the marker names another catalog: as after a restore into a new one
    marker = json.loads((place / "_deltasql").read_text())
    (place / "_deltasql").write_text(json.dumps({**marker, "epoch": marker["epoch"] + 1}))
    before["_deltasql"] = (place / "_deltasql").read_bytes()
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/one.db", sink=events.append) as again:
        with pytest.raises(OwnershipError):
            again.table("orders").commit([an_add("late")])
        assert again.table("orders").state == "conflict"
        assert again.table("orders").version == 1
        assert any(isinstance(event, TableFenced) for event in events)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before


def test_a_log_ahead_of_sql_is_found_before_anything_is_put(tmp_path):
    """A restored older backup: the log has versions that SQL does not know."""
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    backup = (tmp_path / "c.db").read_bytes()
    with deltasql.connect(uri) as catalog:
        catalog.table("orders").append(rows(2))
        catalog.table("orders").append(rows(3))
        names = _log(catalog.table("orders"))
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"c.db{suffix}").unlink(missing_ok=True)
    (tmp_path / "c.db").write_bytes(backup)
    with deltasql.connect(uri) as catalog:
        table = catalog.table("orders")
        assert table.version == 1
        with pytest.raises(OwnershipError, match="SQL has table orders up to 1"):
            table.commit([an_add("lost?")])
        assert (table.state, table.version) == ("conflict", 1)
        assert _log(table) == names


def test_a_slow_store_holds_no_commit_past_the_deadline(catalog_uri, s3_server, fresh_name):
    env = {"DELTASQL_MIRROR_INLINE_DEADLINE": "100ms"}
    slow = Fault(Kind.DELAY, "put_if_absent", key="_delta_log/*1.json", seconds=2.0)
    armed = []
    with deltasql.connect(
        catalog_uri,
        settings=Settings.load(env, Path("/nowhere")),
        storage_options=servers.s3_options(s3_server.endpoint),
        wrap_store=lambda store: _Switched(store, armed),
    ) as catalog:
        table = catalog.create_table(
            "orders",
            location=f"s3://{servers.BUCKET}/{fresh_name}",
            schema=rows(1).schema,
            partition_by=["day"],
        )
        table.wait_mirrored()
        armed.append(slow)
        assert table.commit([an_add("f")]) == 1
        # the commit has returned and the put is still asleep
        assert catalog.mirror.status("orders")["mirrored_through"] == 0
        armed.clear()
        table.wait_mirrored()
        check_invariants(catalog, "orders")


def test_waiting_for_a_mirror_that_cannot_come_says_so(catalog, faults, tmp_path):
    table = a_table(catalog, tmp_path)
    faults.append(Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**6))
    table.commit([an_add("f")])
    with pytest.raises(MirrorLagError, match="not yet at 1"):
        table.wait_mirrored(timeout=0.5)


@pytest.mark.req("R43")
def test_the_tracker_answers_what_is_due(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.commit([an_add("f")])
        tracker, table_id = inspect(catalog).queue, table.table_id
        assert tracker.find_ready_for_retry(table_id, 5, 1000, now=10) == [(0, 0), (1, 0)]
        assert tracker.mark_failed(table_id, 0, "boom", now=1000) == 1
        assert tracker.mark_failed(table_id, 0, "boom", now=2000) == 2
        assert tracker.find_ready_for_retry(table_id, 5, 1000, now=2500) == [(1, 0)]
        assert tracker.find_ready_for_retry(table_id, 5, 1000, now=3000) == [(0, 2), (1, 0)]
        assert tracker.find_ready_for_retry(table_id, 2, 1000, now=3000) == [(1, 0)]
        tracker.mark_failed(table_id, 1, "for good", now=4000, final=True)
        assert tracker.find_failed(table_id) == [1]
        lag = tracker.get_mirror_lag(table_id)
        assert lag.versions == 2
        tracker.mark_success(table_id, 0, json_written=True, checkpoint_written=False, now=5000)
        assert tracker.get_status(table_id, 0).error_message is None
        assert tracker.get_mirror_lag(table_id).versions == 1
        assert tracker.get_status(table_id, 99) is None


def test_threads_that_commit_at_once_leave_nothing_unmirrored(catalog, tmp_path):
    """A commit that finds the table's mirror busy is taken along by the one that is busy."""
    table = a_table(catalog, tmp_path)
    with ThreadPoolExecutor(6) as pool:
        versions = list(pool.map(lambda n: table.commit([an_add(f"f{n}")]), range(60)))
    assert sorted(versions) == list(range(1, 61))
    assert catalog.mirror.status("orders")["lag_versions"] == 0
    check_invariants(catalog, "orders")


def test_a_commit_of_another_process_at_the_wrong_moment_is_no_foreign_one(catalog_uri, tmp_path):
    """The check for a log ahead of SQL reads SQL after the log, never only before it."""
    with deltasql.connect(catalog_uri) as one:
        table = a_table(one, tmp_path)
        raced = []

        class Racing:
            def __init__(self, inner):
                self._inner = inner

            def __getattr__(self, name):
                return getattr(self._inner, name)

            def head(self, key):
                if not raced and key == commit_key(table.version + 1):
                    raced.append(table.commit([an_add("meanwhile")]))
                return self._inner.head(key)

        with deltasql.connect(catalog_uri, wrap_store=Racing) as other:
            assert other.table("orders").commit([an_add("ours")]) == 2
            assert raced == [1]
            assert table.state == "active"
            check_invariants(other, "orders")


def test_leftovers_of_killed_writers_are_swept_from_the_log(catalog_uri, tmp_path):
    """An unfinished file is removed an hour later, by the next process that mirrors the table."""
    with deltasql.connect(catalog_uri) as catalog:
        place = Path(a_table(catalog, tmp_path).location.removeprefix("file://"))
    old, new = (place / "_delta_log" / f".{v:020d}.json.0123456789abcdef.tmp" for v in (1, 2))
    for file in (old, new):
        file.write_bytes(b"half a com")
    os.utime(old, (0, 0))
    with deltasql.connect(catalog_uri) as catalog:
        catalog.table("orders").append(rows(1))
        check_invariants(catalog, "orders")
    assert not old.exists()
    assert new.exists()
