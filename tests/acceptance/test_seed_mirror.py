"""Every scenario of the mirror's requirements, by its name."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import deltasql
from builders import a_remove, a_table, an_add, rows, some
from deltasql.errors import CommitConflictError
from deltasql.events import LagMeasured, MirrorFailed
from deltasql.mirror.engine import Backoff, Mirrored
from deltasql.mirror.queue import MirrorState
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.log_names import checkpoint_path, commit_key
from deltasql.protocol.validate import validate_payload
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from readers import READERS, read_deltasql

LATER = Settings(mirror=MirrorSettings(mode="worker"))


@pytest.fixture
def faults():
    return []


@pytest.fixture
def events():
    return []


@pytest.fixture
def catalog(catalog_uri, faults, events):
    class Switched:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            store = FaultyStore(self.inner, tuple(faults)) if faults else self.inner
            return getattr(store, name)

    with deltasql.connect(catalog_uri, sink=events.append, wrap_store=Switched) as opened:
        opened.create_if_missing()
        yield opened


def place(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def commit_text(table, version: int) -> str:
    return (place(table) / commit_key(version)).read_text(encoding="utf-8")


def status(catalog, table, version: int):
    return inspect(catalog).queue.get_status(table.table_id, version)


@pytest.mark.req("R1")
def test_mirroring_successful_commit(table):
    version = table.append(rows(1))
    assert (place(table) / f"_delta_log/{version:020d}.json").exists()


@pytest.mark.req("R2")
def test_newline_delimited_format(table):
    text = commit_text(table, table.append(rows(1)))
    assert text.endswith("\n")
    assert all(len(json.loads(line)) == 1 for line in some(text.splitlines()))


@pytest.mark.req("R3")
def test_action_ordering(table):
    old = an_add("z")
    table.commit([old])
    actions = [a_remove(old), an_add("b"), an_add("a")]
    text = commit_text(table, table.commit(actions, txn=("app", 1)))
    kinds = [next(iter(json.loads(line))) for line in text.splitlines()]
    assert kinds == ["commitInfo", "txn", "add", "add", "remove"]
    first = [next(iter(json.loads(line))) for line in commit_text(table, 0).splitlines()]
    assert first == ["commitInfo", "protocol", "metaData"]


@pytest.mark.req("R4")
def test_checkpoint_cadence(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(10):
            table.append(rows(number))
    assert (place(table) / f"_delta_log/{10:020d}.checkpoint.parquet").exists()


@pytest.mark.req("R5")
def test_checkpoint_schema(catalog, table):
    table.append(rows(1))
    catalog.mirror.checkpoint("orders")
    schema = pq.read_schema(place(table) / checkpoint_path(1))
    assert schema.names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    add = schema.field("add").type
    assert [add.field(i).name for i in range(add.num_fields)] == [
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "dataChange",
        "tags",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
        "clusteringProvider",
        "stats",
    ]
    assert all(field.nullable for field in schema)


@pytest.mark.req("R6")
def test_checkpoint_compression(catalog, table):
    table.append(rows(1))
    catalog.mirror.checkpoint("orders")
    footer = pq.read_metadata(place(table) / checkpoint_path(1))
    group = footer.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"SNAPPY"}


@pytest.mark.req("R7")
def test_sequencing_guarantee(table):
    table.append(rows(1))
    before = sorted(file.name for file in (place(table) / "_delta_log").iterdir())
    with pytest.raises(CommitConflictError):
        table.commit([an_add("f")], expected_version=0)
    assert sorted(file.name for file in (place(table) / "_delta_log").iterdir()) == before


@pytest.mark.req("R8")
def test_mirroring_order(catalog, table):
    version = table.append(rows(1))
    assert catalog.mirror.status("orders")["mirrored_through"] == version


@pytest.mark.req("R9")
def test_duplicate_mirror_attempt(catalog, table, faults):
    faults.append(Fault(Kind.FAIL_AFTER, "put_if_absent", times=1))
    version = table.append(rows(1))
    faults.clear()
    table.wait_mirrored()
    engine, row = inspect(catalog).engine, table.refresh()
    assert engine.mirror_version(row, version).outcome is Mirrored.ALREADY
    assert table.state == "active"


@pytest.mark.req("R10")
def test_overwrite_safety(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=LATER) as catalog:
        table = a_table(catalog, tmp_path)
        table.wait_mirrored()
        foreign = b'{"commitInfo":{"timestamp":1}}\n'
        (place(table) / commit_key(1)).write_bytes(foreign)
        version = table.append(rows(1))
        catalog.mirror.run_once()
        assert (place(table) / commit_key(version)).read_bytes() == foreign
        assert table.state == "conflict"


@pytest.mark.req("R11")
def test_recording_success(catalog, table):
    version = table.append(rows(1))
    found = status(catalog, table, version)
    assert (found.status, found.json_written) == (MirrorState.SUCCESS, True)
    assert found.updated_at > 0


@pytest.mark.req("R12")
def test_recording_failure(catalog, table, faults):
    faults.append(Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**6))
    version = table.commit([an_add("f")])
    engine = inspect(catalog).engine
    for _ in range(4):
        engine.catch_up(table.table_id, seconds=5)
    found = status(catalog, table, version)
    assert (found.status, found.retry_count) == (MirrorState.FAILED, 5)
    assert "DS404" in found.error_message


@pytest.mark.req("R13")
def test_pending_status(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=LATER) as catalog:
        table = a_table(catalog, tmp_path)
        version = table.append(rows(1))
        assert status(catalog, table, version).status is MirrorState.PENDING
        # two that try at once put the same bytes: one commit, no conflict
        row = table.refresh()
        engine = inspect(catalog).engine
        engine.mirror_batch(row)
        engine.mirror_batch(row)
        assert table.state == "active"
        assert status(catalog, table, version).status is MirrorState.SUCCESS


@pytest.mark.req("R14")
def test_lag_calculation(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=LATER) as catalog:
        table = a_table(catalog, tmp_path)
        table.wait_mirrored()
        for number in range(3):
            table.append(rows(number))
        assert catalog.mirror.status("orders")["lag_versions"] == 3


@pytest.mark.req("R15")
def test_lag_alerting(catalog_uri, tmp_path, events):
    told = []
    with deltasql.connect(catalog_uri, settings=LATER, sink=events.append) as catalog:
        table = a_table(catalog, tmp_path)
        reconciler = catalog.mirror.reconciler()
        reconciler.desk = AlertDesk([told.append])
        (found,) = reconciler.tracker.find_behind()
        reconciler.clock = lambda: found.committed_at + 60_001
        reconciler.emit_lag_metrics(found)
        assert [alert.table for alert in told] == [table.name]
        assert any(isinstance(e, LagMeasured) and e.lag_seconds > 60 for e in events)


@pytest.mark.req("R16")
def test_gap_detection(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=LATER) as catalog:
        table = a_table(catalog, tmp_path)
        tracker = inspect(catalog).queue
        tracker.mark_failed(table.table_id, 0, "no", now=1, final=True)
        assert tracker.find_failed(table.table_id) == [0]
        assert [found.status for found in tracker.find_behind()] == ["FAILED"]
        assert catalog.mirror.run_once().mirrored == 1


@pytest.mark.req("R17")
def test_automatic_retry(catalog, table, faults, events):
    assert [Backoff().longest(n) for n in range(7)] == [1, 2, 4, 8, 16, 32, 60]
    faults.append(Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**6))
    table.commit([an_add("f")])
    faults.clear()
    assert catalog.mirror.run_once().mirrored == 1
    failed = next(event for event in events if isinstance(event, MirrorFailed))
    assert failed.next_attempt_ms is not None


@pytest.mark.req("R18")
def test_gap_notification(catalog, table, faults):
    told = []
    faults.append(Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**6))
    table.commit([an_add("f")])
    reconciler = catalog.mirror.reconciler()
    reconciler.desk = AlertDesk([told.append])
    for _ in range(5):
        reconciler.run_once()
    assert [alert.kind for alert in told] == ["mirror_stuck"]
    assert "5 retries" in told[0].text()


@pytest.mark.req("R19")
def test_conditional_put(table):
    """The local store creates by a hard link, which fails where the name is taken."""
    assert table.append(rows(1)) == 1
    store = inspect(table).connection.store_of(table._row)
    with pytest.raises(deltasql.errors.ObjectExistsError):
        store.put_if_absent(commit_key(1), b"other")


@pytest.mark.req("R20")
def test_atomic_rename(table):
    table.append(rows(1))
    assert not [f for f in (place(table) / "_delta_log").iterdir() if f.name.endswith(".tmp")]


@pytest.mark.req("R21")
def test_json_field_ordering(table):
    text = commit_text(table, table.append(rows(1)))
    for line in some(text.splitlines()):
        (body,) = json.loads(line).values()
        assert list(body) == sorted(body)


@pytest.mark.req("R22")
def test_timestamp_formatting(table):
    text = commit_text(table, table.append(rows(1)))
    info, add = (json.loads(line) for line in text.splitlines())
    for value in (
        info["commitInfo"]["timestamp"],
        info["commitInfo"]["inCommitTimestamp"],
        add["add"]["modificationTime"],
    ):
        assert isinstance(value, int)
        assert value > 1_600_000_000_000


@pytest.mark.req("R23")
def test_null_handling(table):
    text = commit_text(table, table.append(rows(1, day=None)))
    add = json.loads(text.splitlines()[1])["add"]
    assert "tags" not in add
    assert "deletionVector" not in add
    assert add["partitionValues"] == {"day": None}  # a null partition is a value and stays


@pytest.mark.req("R24")
def test_json_validation(table):
    version = table.append(rows(1))
    payload = (place(table) / commit_key(version)).read_bytes()
    decode_commit(payload, version=version)
    validate_payload(payload, version=version)


@pytest.mark.req("R25")
def test_checkpoint_validation(catalog, table):
    table.append(rows(1))
    catalog.mirror.checkpoint("orders")
    assert catalog.mirror.verify("orders") == []


@pytest.mark.req("R26")
@pytest.mark.parametrize("reader", list(READERS))
def test_external_reader_test(catalog, table, reader):
    for number in range(12):
        table.append(rows(number))
    inspect(catalog).mirroring.checkpoints.finish()
    assert READERS[reader](str(place(table))) == read_deltasql(table)


def test_slow_retries_are_hourly_for_refusals():
    settings = MirrorSettings()
    assert settings.slow_retry_interval == timedelta(hours=1)
