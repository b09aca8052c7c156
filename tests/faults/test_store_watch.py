"""A store that does not answer is seen by the worker even if no version waits for it."""

import json
import threading
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

import deltasql
import servers
from builders import SCHEMA, a_table, ids, rows
from deltasql.api.mirror import health_of
from deltasql.api.session import failure_reason
from deltasql.errors import (
    AccessDeniedError,
    CatalogUnavailableError,
    CommitUnknownError,
    ConstraintViolationError,
    LoginRefusedError,
    StorageError,
    StorageUnavailableError,
    TableStateError,
)
from deltasql.events import CommitFailed, DataWriteFailed, ReconcilerFailed, StoreUnavailable
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.mirror.worker.store_watch import ask_stores, stores_of
from deltasql.settings import MirrorSettings, Settings
from deltasql.sinks import prometheus_sink
from deltasql.testing import inspect

WORKER = Settings(mirror=MirrorSettings(mode="worker"))


def watched(catalog):
    """Return a worker, and the alerts that it tells."""
    worker, alerts = catalog.mirror.reconciler(), []
    worker.desk = AlertDesk([alerts.append], catalog="c", worker="w")
    worker.breakers.probe_every_s = worker.stores.breakers.probe_every_s = 0.0
    return worker, alerts


@pytest.fixture
def s3(tmp_path, fault_proxy, fresh_name):
    """A mirrored table in S3; everything that happens is counted in a registry."""
    registry, told = CollectorRegistry(), []
    count = prometheus_sink(registry)
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    options = servers.s3_options(fault_proxy.endpoint)
    with deltasql.connect(
        uri, storage_options=options, sink=lambda event: (told.append(event), count(event))
    ) as catalog:
        place = f"s3://{servers.BUCKET}/{fresh_name}"
        catalog.create_table("orders", location=place, schema=SCHEMA)
        yield catalog, registry, told


def test_an_outage_in_which_every_append_fails_is_a_metric_an_alert_and_a_fact(s3, fault_proxy):
    catalog, registry, told = s3
    store = f"s3://{servers.BUCKET}"
    worker, alerts = watched(catalog)
    worker.run_once()
    assert registry.get_sample_value("deltasql_store_up", {"store": store}) == 1
    fault_proxy.rule("403", count=1_000_000)
    with pytest.raises(AccessDeniedError):
        catalog.table("orders").append(rows(1))
    labels = {"table": "orders", "reason": "denied"}
    assert registry.get_sample_value("deltasql_data_write_failures_total", labels) == 1
    assert catalog.mirror.lags() == []  # the queue knows nothing of it
    for _ in range(2):
        worker.run_once()
    assert registry.get_sample_value("deltasql_store_up", {"store": store}) == 0
    assert worker.stores_down() == [store]
    facts = health_of(worker).facts()
    assert (facts["stores_down"], list(facts["store_errors"])) == ([store], [store])
    (alert,) = alerts
    assert (alert.kind, alert.store, alert.severity) == ("store_unavailable", store, "critical")
    assert (alert.error_code, alert.catalog, alert.worker) == ("DS403", "c", "w")
    assert len([event for event in told if isinstance(event, StoreUnavailable)]) == 1
    fault_proxy.rules.clear()
    swept = worker.run_once()
    assert swept.failed == 0
    assert registry.get_sample_value("deltasql_store_up", {"store": store}) == 1
    assert worker.stores_down() == []
    assert [one.status for one in alerts] == ["firing", "resolved"]
    assert registry.get_sample_value("deltasql_stores_down") == 0


def test_one_question_is_asked_for_all_tables_of_a_bucket(s3, fault_proxy, fresh_name):
    catalog, *_ = s3
    for number in range(3):
        place = f"s3://{servers.BUCKET}/{fresh_name}-{number}"
        catalog.create_table(f"t{number}", location=place, schema=SCHEMA)
    worker, _ = watched(catalog)
    before = len(fault_proxy.seen)
    worker.run_once()
    assert [method for method, *_ in fault_proxy.seen[before:]] == ["HEAD"]


@pytest.fixture
def local(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        yield catalog, a_table(catalog, tmp_path), tmp_path


def folder_of(table):
    return table.location.removeprefix("file://")


def test_a_disk_that_is_gone_is_told_by_the_worker_and_by_status(local, call):
    catalog, table, tmp_path = local
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    worker, alerts = watched(catalog)
    place = tmp_path / folder_of(table)
    place.rename(tmp_path / "away")
    worker.run_once()
    assert [alert.error_code for alert in alerts] == ["DS404"]
    warned = f"The store {table.location} cannot be used: DS404: "
    assert f"warning: {warned}" in call("-u", uri, "mirror", "status").stderr
    line = json.loads(call("-u", uri, "-o", "json", "mirror", "status", "orders").stderr)
    assert line["warning"].startswith(warned)
    (tmp_path / "away").rename(place)
    worker.run_once()
    assert [alert.status for alert in alerts] == ["firing", "resolved"]
    assert "warning" not in call("-u", uri, "mirror", "status").stderr


def test_an_answer_to_a_question_closes_the_breaker(local):
    catalog, table, _ = local
    worker, _ = watched(catalog)
    worker.breakers.probe_every_s = 3600.0
    for _ in range(3):
        worker.breakers.failed(table.location)
    assert worker.breakers.down() == [table.location]
    assert not worker.breakers.allows(table.location)
    worker.stores.wait(worker.stores.ask_all([inspect(catalog).metastore.table("orders")]))
    assert worker.breakers.down() == []
    assert worker.breakers.allows(table.location)


def test_a_log_that_somebody_else_moves_on_closes_the_breaker(local):
    catalog, table, tmp_path = local
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    worker, _ = watched(catalog)
    with deltasql.connect(uri, settings=WORKER) as writer:
        for number in range(3):
            writer.table("orders").append(rows(number))
    for _ in range(3):
        worker.breakers.failed(table.location)
    worker.breakers.probe_every_s = 3600.0
    worker._notice_others(worker._find())
    worker._notice_others(worker._find())
    assert worker.breakers.down() == [table.location]
    engine = inspect(catalog).engine
    engine.mirror_batch(engine.connection.metastore.table("orders"), 1)  # as another worker would
    assert catalog.mirror.status("orders")["lag_versions"] == 2
    worker._notice_others(worker._find())
    assert worker.breakers.down() == []


class Hanging:
    """A store whose questions wait until they may go on, as those to a mount that hangs do."""

    def __init__(self, store, may_go_on, methods, key=""):
        self.store, self.may_go_on, self.methods, self.key = store, may_go_on, methods, key

    def __getattr__(self, name):
        method = getattr(self.store, name)
        if name not in self.methods:
            return method

        def wait(key, *arguments):
            if self.key in key:
                self.may_go_on.wait(60)
            return method(key, *arguments)

        return wait


def test_a_store_that_hangs_holds_up_no_other_and_is_told(local):
    catalog, table, tmp_path = local
    other = a_table(catalog, tmp_path, "other")
    worker, alerts = watched(catalog)
    may_go_on = threading.Event()
    real = worker.stores.open_store

    def open_store(row):
        store = real(row)
        return Hanging(store, may_go_on, {"head"}) if row.name == "orders" else store

    worker.stores.open_store = open_store
    worker.stores.patience_s = 0.5
    try:
        asked = ask_stores(stores_of(inspect(catalog).metastore.tables()), open_store, 0.5)
        assert isinstance(asked[table.location], StorageUnavailableError)
        assert asked[other.location] is None
        worker.run_once()
        assert worker.stores_down() == [table.location]
        assert [alert.store for alert in alerts] == [table.location]
        worker.run_once()  # it is not asked a second time while it has not answered
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("deltasql-probe") == 2  # ours by hand, and the worker's
    finally:
        may_go_on.set()
    worker.stores.close()
    assert worker.stores_down() == []
    assert [alert.status for alert in alerts] == ["firing", "resolved"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AccessDeniedError(), "denied"),
        (LoginRefusedError(), "denied"),
        (StorageUnavailableError(), "unavailable"),
        (CatalogUnavailableError(), "unavailable"),
        (CommitUnknownError(), "unknown"),
        (ConstraintViolationError(), "refused"),
        (StorageError(), "refused"),
        (KeyError("secret"), "unexpected"),
    ],
)
def test_failures_have_few_reasons(error, reason):
    assert failure_reason(error) == reason


def test_a_commit_and_a_write_that_fail_are_events_without_a_worker(catalog_uri, tmp_path):
    told = []
    with deltasql.connect(catalog_uri, sink=told.append) as catalog:
        table = a_table(catalog, tmp_path)
        table.alter(properties={"delta.constraints.few": "id < 10"})
        with pytest.raises(ConstraintViolationError):
            table.append(rows(11))
        with pytest.raises(TableStateError), catalog.transaction() as tx:
            tx.table("orders").append(rows(1))
            with deltasql.connect(catalog_uri) as other:
                other.table("orders").detach()
    (write,) = [event for event in told if isinstance(event, DataWriteFailed)]
    (commit,) = [event for event in told if isinstance(event, CommitFailed)]
    assert (write.table, write.reason, write.error_code) == ("orders", "refused", "DS206")
    assert (commit.table, commit.reason, commit.error_code) == ("orders", "refused", "DS304")
    assert commit.error_message


def test_a_database_that_fails_a_drain_is_told_once(local, monkeypatch):
    catalog, _, tmp_path = local
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, settings=WORKER) as writer:
        writer.table("orders").append(rows(1))
    worker, _ = watched(catalog)
    told = []
    worker.sink = told.append

    def fail(*_):
        raise CatalogUnavailableError("The database does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(type(worker.engine), "mirror_batch", fail)
        for _ in range(3):
            assert worker.run_once().failed == 1
    assert len([event for event in told if isinstance(event, ReconcilerFailed)]) == 1
    assert worker.run_once().mirrored == 1


@pytest.mark.parametrize("place", ["file", "memory"])
def test_a_store_that_hangs_holds_no_commit_longer_than_the_deadline(catalog_uri, tmp_path, place):
    may_go_on = threading.Event()
    settings = Settings(mirror=MirrorSettings(inline_deadline=timedelta(milliseconds=100)))
    root = str(tmp_path / "t") if place == "file" else f"memory://{tmp_path.name}/t"
    with deltasql.connect(
        catalog_uri,
        settings=settings,
        wrap_store=lambda store: Hanging(store, may_go_on, {"put_if_absent"}, f"{1:020}.json"),
    ) as catalog:
        table = catalog.create_table("t", location=root, schema=SCHEMA)
        try:
            assert table.append(rows(1)) == 1  # its mirror waits, this call does not
            assert catalog.mirror.status("t")["mirrored_through"] == 0
        finally:
            may_go_on.set()
    with deltasql.connect(catalog_uri) as catalog:
        if place == "file":
            assert catalog.mirror.lag("t") is None  # the end waited for it
            assert ids(catalog.table("t")) == [1]
