"""What the sinks make of events."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from deltasql.errors import CommitConflictError
from deltasql.events import (
    CheckpointFailed,
    CheckpointWritten,
    CommitConflicted,
    CommitFailed,
    DataWriteFailed,
    LagMeasured,
    MirrorConflicted,
    MirrorFailed,
    ReconcilePassFinished,
    SnapshotOpened,
    StoreProbed,
    VersionCommitted,
    VersionMirrored,
)
from deltasql.sinks import logging_sink, prometheus_sink, span

WHERE = {"table_id": "id", "table": "orders", "version": 7}
FAILED = MirrorFailed(**WHERE, key="_delta_log/7.json", attempt=2, error_code="DS404")


@pytest.mark.req("R55")
def test_log_records_carry_the_fields(caplog):
    with caplog.at_level(logging.DEBUG, "deltasql"):
        logging_sink()(FAILED)
    record = caplog.records[-1]
    assert record.levelno == logging.WARNING
    fields = {"event", "table_id", "table", "version", "key", "attempt", "error_code"}
    assert {name: getattr(record, name) for name in fields} == {
        "event": "mirror_failed",
        **WHERE,
        "key": "_delta_log/7.json",
        "attempt": 2,
        "error_code": "DS404",
    }


@pytest.mark.req("R14", "R42", "R55", "R97")
def test_metrics_have_the_designs_names_and_the_table_as_their_only_label():
    registry = CollectorRegistry()
    sink = prometheus_sink(registry)
    sink(VersionCommitted(**WHERE, operation="WRITE", latency_ms=4, files_active=9))
    sink(SnapshotOpened(**WHERE, latency_ms=3))
    sink(VersionMirrored(**WHERE, key="k", latency_ms=20))
    sink(FAILED)
    sink(MirrorConflicted(**WHERE, key="k", error_code="DS501"))
    sink(LagMeasured(**WHERE, lag_seconds=61.5, lag_versions=4, stuck_versions=1))

    def value(name):
        return registry.get_sample_value(f"deltasql_{name}", {"table": "orders"})

    assert value("versions_committed_total") == 1
    assert value("commit_latency_ms_sum") == 4
    assert value("files_active_gauge") == 9
    assert value("metadata_open_latency_ms_count") == 1
    assert value("mirror_latency_ms_sum") == 20
    assert value("mirror_failures_total") == 2
    assert value("mirror_lag_seconds") == 61.5
    assert value("mirror_lag_versions") == value("mirror_backlog_gauge") == 4
    assert value("mirror_stuck_versions") == 1
    sink(CheckpointWritten(**WHERE, key="k", latency_ms=7, files=3))
    sink(CheckpointFailed(**WHERE, key="k", error_code="DS504"))
    sink(
        ReconcilePassFinished(
            **WHERE, behind=2, missing_rows=0, queries=12, stores_down=1, latency_ms=5
        )
    )
    assert value("checkpoint_latency_ms_sum") == 7
    assert value("checkpoint_failures_total") == 1
    assert registry.get_sample_value("deltasql_reconciler_queries") == 12
    assert registry.get_sample_value("deltasql_stores_down") == 1
    labels = {name for metric in registry.collect() for s in metric.samples for name in s.labels}
    assert labels == {"table", "le"}


def test_failures_are_counted_by_reason_and_stores_by_name():
    registry = CollectorRegistry()
    sink = prometheus_sink(registry)
    facts = {"error_code": "DS404", "error_message": "no"}
    sink(CommitFailed(**WHERE, reason="unavailable", **facts))
    sink(CommitConflicted(**WHERE, attempt=1, error_code="DS305"))
    sink(DataWriteFailed(**WHERE, reason="denied", **facts))
    nowhere = {"table_id": "", "table": "", "version": 0, "store": "s3://lake"}
    nowhere |= {"latency_ms": 1, "stores_down": 2}

    def value(name, **labels):
        return registry.get_sample_value(f"deltasql_{name}", labels)

    assert value("commit_failures_total", table="orders", reason="unavailable") == 1
    assert value("commit_failures_total", table="orders", reason="conflict") == 1
    assert value("data_write_failures_total", table="orders", reason="denied") == 1
    for code, is_up in ((None, 1), ("DS404", 0), (None, 1)):
        sink(StoreProbed(**nowhere, error_code=code))
        assert value("store_up", store="s3://lake") == is_up
        assert value("stores_down") == 2
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    assert {name for sample in samples for name in sample.labels} == {"table", "reason", "store"}


def test_two_sinks_of_one_registry_share_its_metrics():
    registry = CollectorRegistry()
    for sink in (prometheus_sink(registry), prometheus_sink(registry)):
        sink(FAILED)
    assert registry.get_sample_value("deltasql_mirror_failures_total", {"table": "orders"}) == 2


@pytest.mark.req("R98")
def test_a_span_without_an_sdk_changes_nothing():
    with span("commit", table="orders", version=3):
        done = True
    assert done
    with pytest.raises(CommitConflictError), span("commit"):
        raise CommitConflictError
