"""Checkpoints on every dialect: when, what is in them, and that nothing wrong ever gets out."""

import json
import os
import tempfile
import uuid
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add, rows, some
from deltasql.errors import CheckpointError, LeaseLostError
from deltasql.events import CheckpointFailed, CheckpointWritten
from deltasql.metastore.leases import Leases
from deltasql.protocol.actions import DomainMetadata
from deltasql.protocol.log_names import LAST_CHECKPOINT, checkpoint_path, commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql

WEEK_MS = 7 * 24 * 3600 * 1000


def place(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def log_of(table) -> list[str]:
    return sorted(file.name for file in (place(table) / "_delta_log").iterdir())


def checkpoint_rows(table, version: int, kind: str) -> list[dict]:
    found = pq.read_table(place(table) / checkpoint_path(version)).column(kind).to_pylist()
    return [row for row in found if row is not None]


def hint_of(table) -> dict:
    return json.loads((place(table) / LAST_CHECKPOINT).read_text())


@pytest.mark.req("R4")
def test_every_tenth_version_has_one_and_the_first_has_none(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(11):
            table.append(rows(number))
    names = [name for name in log_of(table) if "checkpoint.parquet" in name]
    assert names == [f"{10:020d}.checkpoint.parquet"]
    assert hint_of(table)["version"] == 10
    with deltasql.connect(catalog_uri) as catalog:
        catalog.create_if_missing()
        status = inspect(catalog).queue.get_status(table.table_id, 10)
        assert (status.json_written, status.checkpoint_written) == (True, True)
        assert not inspect(catalog).queue.get_status(table.table_id, 9).checkpoint_written
        assert catalog.mirror.verify("orders") == []


@pytest.mark.req("R27")
@pytest.mark.parametrize("key", ["deltasql.mirror.checkpoint_interval", "delta.checkpointInterval"])
def test_a_table_may_have_its_own_interval(catalog_uri, tmp_path, key):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, properties={key: "3"})
        for number in range(3):
            table.append(rows(number))
    assert f"{3:020d}.checkpoint.parquet" in log_of(table)


@pytest.mark.req("R26")
@pytest.mark.parametrize("reader", list(READERS))
def test_readers_need_no_json_before_the_checkpoint(catalog_uri, tmp_path, reader):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(10):
            day = None if number % 3 == 0 else f"d {number}%é"
            table.append(rows(number, number + 100, day=day))
        table.delete("day = 'd 1%é'")
        table.append(rows(1000))
        expected = read_deltasql(table)
    for version in range(10):
        (place(table) / commit_key(version)).unlink()
    assert READERS[reader](str(place(table))) == expected


def test_it_holds_the_state_of_its_own_version_while_the_table_moves_on(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        first, second, third = an_add("a"), an_add("b"), an_add("c")
        table.commit([first], txn=("app", 1))
        table.commit([second, a_remove(first, deletion_timestamp=2**60)])
        table.commit([third, a_remove(second, deletion_timestamp=2**60)], txn=("app", 2))
        table.commit([an_add("a", low=5)])
        table.wait_mirrored()
        catalog.mirror.checkpoint("orders", 2)
        assert [add["path"] for add in checkpoint_rows(table, 2, "add")] == ["b"]
        assert [remove["path"] for remove in checkpoint_rows(table, 2, "remove")] == ["a"]
        (txn,) = checkpoint_rows(table, 2, "txn")
        assert (txn["appId"], txn["version"]) == ("app", 1)
        catalog.mirror.checkpoint("orders", 4)
        assert [add["path"] for add in checkpoint_rows(table, 4, "add")] == ["c", "a"]
        # `a` was removed and came back: it is a live file and no tombstone
        assert [remove["path"] for remove in checkpoint_rows(table, 4, "remove")] == ["b"]
        assert checkpoint_rows(table, 4, "txn")[0]["version"] == 2
        assert hint_of(table)["version"] == 4


def test_tombstones_expire_by_the_time_of_the_commit(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        old, new = an_add("old"), an_add("new")
        table.commit([old, new])
        now = table.snapshot().timestamp
        table.commit(
            [
                a_remove(old, deletion_timestamp=now - WEEK_MS - 60_000),
                a_remove(new, deletion_timestamp=now),
            ]
        )
        catalog.mirror.checkpoint("orders")
        assert [remove["path"] for remove in checkpoint_rows(table, 2, "remove")] == ["new"]


def test_domains_are_carried_and_removed_ones_are_not(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for domain, removed in (("one", False), ("two", False), ("two", True)):
            given = DomainMetadata(domain=domain, configuration="{}", removed=removed)
            table.commit([given])
        catalog.mirror.checkpoint("orders")
        kept = checkpoint_rows(table, 3, "domainMetadata")
        assert [domain["domain"] for domain in kept] == ["one"]


@pytest.mark.req("R5")
@pytest.mark.req("R6")
def test_statistics_come_as_the_table_wants_them(catalog_uri, tmp_path):
    wanted = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, properties=wanted)
        table.append(rows(3, 9, day="x"))
        catalog.mirror.checkpoint("orders")
        (add,) = checkpoint_rows(table, 1, "add")
        assert "stats" not in add
        assert add["partitionValues_parsed"] == {"day": "x"}
        assert add["stats_parsed"]["numRecords"] == 2
        assert add["stats_parsed"]["minValues"] == {"id": 3, "name": "n3"}
        assert add["stats_parsed"]["maxValues"] == {"id": 9, "name": "n9"}
        assert add["stats_parsed"]["nullCount"] == {"id": 0, "name": 0}
        footer = pq.read_metadata(place(table) / checkpoint_path(1))
        assert footer.row_group(0).column(0).compression == "SNAPPY"


def test_bytes_are_the_same_twice_and_on_every_database(postgres_server, tmp_path):
    """Times, ids and the name are given, so nothing but the databases' order could differ."""
    uris = [
        f"deltasql://sqlite/{tmp_path}/c.db",
        postgres_server.uri(postgres_server.create_database_name()),
    ]
    found = []
    for number, uri in enumerate(uris):
        ticks = iter(range(1_800_000_000_000, 1_900_000_000_000, 1000))
        with deltasql.connect(uri, clock=lambda ticks=ticks: next(ticks)) as catalog:
            catalog.create_if_missing()
            connection = inspect(catalog).connection
            chance, connection.new_id = connection.new_id, lambda: str(uuid.UUID(int=7))
            table = catalog.create_table(
                "t",
                location=str(tmp_path / f"t{number}"),
                schema=rows(1).schema,
                partition_by=["day"],
            )
            connection.new_id = chance
            created = table.snapshot().metadata
            for path in ("z", "a", "é", "Z", "%20", "b c"):
                table.commit([an_add(path, day=path)], txn=(f"app {path}", 1))
            table.commit([a_remove(an_add("a", day="a"), deletion_timestamp=1_800_000_000_000)])
            # the clock is asked more or less often by each database
            table.commit([msgspec.structs.replace(created, created_time=1)])
            for _ in range(2):
                catalog.mirror.checkpoint("t")
                file = place(table) / checkpoint_path(8)
                found.append(file.read_bytes())
                file.unlink()
    assert len(found[0]) > 1000
    assert found == [found[0]] * 4


def test_a_wrong_checkpoint_of_others_is_neither_taken_nor_overwritten(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        table.append(rows(2))
        catalog.mirror.checkpoint("orders", 1)
        stranger = (place(table) / checkpoint_path(1)).read_bytes()
        (place(table) / checkpoint_path(2)).write_bytes(stranger)
        with pytest.raises(CheckpointError, match="rows of add"):
            catalog.mirror.checkpoint("orders", 2)
        assert (place(table) / checkpoint_path(2)).read_bytes() == stranger
        assert hint_of(table)["version"] == 1


def test_the_hint_never_moves_backwards(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(4):
            table.append(rows(number))
        catalog.mirror.checkpoint("orders", 3)
        catalog.mirror.checkpoint("orders", 2)
        assert hint_of(table)["version"] == 3
        with pytest.raises(CheckpointError, match="not in the log"):
            catalog.mirror.checkpoint("orders", 9)


@pytest.mark.req("R44")
def test_a_checkpoint_that_fails_leaves_the_commit_alone_and_is_tried_again(
    catalog_uri, tmp_path, monkeypatch
):
    events = []
    with deltasql.connect(catalog_uri, sink=events.append) as catalog:
        table = a_table(catalog, tmp_path, properties={"delta.checkpointInterval": "2"})
        checkpointer = inspect(catalog).checkpointer
        broken = CheckpointError("no room")
        with monkeypatch.context() as patch:
            patch.setattr(type(checkpointer), "_write", _raise(broken))
            table.append(rows(1))
            table.append(rows(2))
            _until(lambda: any(isinstance(e, CheckpointFailed) for e in events))
            status = inspect(catalog).queue.get_status(table.table_id, 2)
            assert (str(status.status), status.checkpoint_written) == ("SUCCESS", False)
        _until(lambda: any(isinstance(e, CheckpointWritten) for e in events))
        assert hint_of(table)["version"] == 2
        check_invariants(catalog, "orders")


def _raise(error):
    def write(*_, **__):
        raise error

    return write


def _until(holds, seconds: float = 30.0) -> None:
    import time

    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def test_one_worker_has_the_lease_and_a_late_one_finds_out(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        database = inspect(catalog).database
        one, other = (Leases(database, name, ttl_ms=60_000) for name in ("one", "other"))
        lease = one.acquire(table.table_id, "checkpoint")
        assert other.acquire(table.table_id, "checkpoint") is None
        one.renew(lease)
        one.release(lease)
        taken = other.acquire(table.table_id, "checkpoint")
        assert taken.fencing == lease.fencing + 1
        with pytest.raises(LeaseLostError):
            one.renew(lease)
        one.release(lease)
        assert one.acquire(table.table_id, "checkpoint") is None


def test_a_lease_that_ran_out_can_be_taken_and_fences_its_old_holder(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        database = inspect(catalog).database
        paused, quick = Leases(database, "paused", ttl_ms=0), Leases(database, "quick")
        old = paused.acquire(table.table_id, "checkpoint")
        assert quick.acquire(table.table_id, "checkpoint") is not None
        with database.write() as tx, pytest.raises(LeaseLostError):
            paused.require(tx, old)


def test_under_a_stream_of_commits_checkpoints_are_paced(catalog_uri, tmp_path):
    events = []
    settings = Settings(mirror=MirrorSettings(checkpoint_interval=1))
    with deltasql.connect(catalog_uri, sink=events.append, settings=settings) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(60):
            table.commit([an_add(f"f{number}")])
    written = [e.version for e in events if isinstance(e, CheckpointWritten)]
    assert written == sorted(set(written))
    assert written[-1] == 60
    assert len(written) < 60
    assert hint_of(table)["version"] == 60


@pytest.mark.parametrize("size", [0, 6, 500])
def test_a_checkpoint_cut_short_is_found_and_written_again(catalog_uri, tmp_path, size):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        catalog.mirror.checkpoint("orders")
        file = place(table) / checkpoint_path(1)
        os.truncate(file, size)
        assert [str(f.difference) for f in catalog.mirror.verify("orders")] == ["changed_file"]
        assert all(one.done for one in some(catalog.mirror.repair("orders")))
        assert catalog.mirror.verify("orders") == []


def test_a_pass_finishes_its_checkpoints_and_the_catalog_goes_on(catalog_uri, tmp_path):
    settings = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=2))
    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        table = a_table(catalog, tmp_path)
        for wanted in (2, 4, 6):
            table.append(rows(wanted))
            table.append(rows(wanted))
            catalog.mirror.run_once()
            assert hint_of(table)["version"] == wanted


def test_a_checkpoint_that_fails_does_not_hold_up_a_pass(catalog_uri, tmp_path, monkeypatch):
    settings = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=1))
    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        checkpointer = inspect(catalog).checkpointer
        with monkeypatch.context() as patch:
            patch.setattr(type(checkpointer), "_write", _raise(CheckpointError("no room")))
            assert catalog.mirror.run_once().mirrored == 2
        assert not (place(table) / LAST_CHECKPOINT).exists()
        catalog.mirror.run_once()
        assert hint_of(table)["version"] == 1


def test_a_disk_without_room_fails_the_checkpoint_and_not_the_worker(
    catalog_uri, tmp_path, monkeypatch
):
    settings = Settings(mirror=MirrorSettings(mode="worker", checkpoint_interval=1))
    events = []
    with deltasql.connect(catalog_uri, settings=settings, sink=events.append) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(tmp_path / "is not there"))
            assert catalog.mirror.run_once().mirrored == 2
        failed = {e.error_code for e in events if isinstance(e, CheckpointFailed)}
        assert failed == {"FileNotFoundError"}
        catalog.mirror.run_once()
        assert hint_of(table)["version"] == 1
