"""Sinks that come with the package: logging and Prometheus; and spans for OpenTelemetry.

The host owns exporters and servers: nothing here opens a port or starts a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from deltasql.errors import DeltaSqlError
from deltasql.events import (
    Alert,
    CheckpointFailed,
    CheckpointWritten,
    CommitConflicted,
    CommitFailed,
    DataWriteFailed,
    Event,
    FindingsCounted,
    LagMeasured,
    MirrorConflicted,
    MirrorFailed,
    ReconcilePassFinished,
    Sink,
    SnapshotOpened,
    StoreProbed,
    VersionCommitted,
    VersionMirrored,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LATENCY_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 300_000)


def logging_sink(logger: logging.Logger | None = None) -> Sink:
    """Return a sink that logs each event: WARNING for bad news, DEBUG for the rest.

    Alerts are passed over: they have a logger of their own.

    Every field of the event is an `extra` of the record, and its name is `event`; the line itself
    tells the code of an error.
    """
    target = logger or logging.getLogger("deltasql")

    def send(event: Event) -> None:
        if isinstance(event, Alert):
            return
        level = logging.WARNING if event.is_bad else logging.DEBUG
        if target.isEnabledFor(level):
            fields = {"event": event.name, **asdict(event)}
            code = fields.get("error_code")
            place = f" {event.table}@{event.version}" if event.table else ""
            error = f" {code}" if code else ""
            text = f": {fields['error_message']}" if fields.get("error_message") else ""
            target.log(level, "%s%s%s%s", event.name, place, error, text, extra=fields)

    return send


@dataclass(frozen=True, slots=True, eq=False)
class _Metrics:
    """The metrics of one registry. Labels are table, store and reason: a version never is one."""

    mirror_lag_seconds: Gauge
    mirror_lag_versions: Gauge
    mirror_backlog: Gauge
    mirror_stuck_versions: Gauge
    mirror_findings: Gauge
    mirror_latency: Histogram
    mirror_failures: Counter
    open_latency: Histogram
    commit_latency: Histogram
    versions_committed: Counter
    files_active: Gauge
    checkpoint_latency: Histogram
    checkpoint_failures: Counter
    reconciler_queries: Gauge
    reconciler_sweep: Gauge
    stores_down: Gauge
    store_up: Gauge
    tables_in_conflict: Gauge
    commit_failures: Counter
    data_write_failures: Counter


_by_registry: WeakKeyDictionary[CollectorRegistry, _Metrics] = WeakKeyDictionary()


def prometheus_sink(registry: CollectorRegistry | None = None) -> Sink:
    """Return a sink that keeps the `deltasql_` metrics in a registry (default: the global one).

    Several sinks of one registry share its metrics.
    """
    from prometheus_client import REGISTRY  # noqa: PLC0415 (only who wants metrics pays for them)

    chosen = REGISTRY if registry is None else registry
    metrics = _by_registry.get(chosen)
    if metrics is None:
        metrics = _by_registry[chosen] = _register(chosen)
    known = metrics

    def send(event: Event) -> None:
        _count(known, event)

    return send


def _register(registry: CollectorRegistry) -> _Metrics:
    from prometheus_client import Counter, Gauge, Histogram  # noqa: PLC0415

    def gauge(name: str, text: str) -> Gauge:
        return Gauge(f"deltasql_{name}", text, ["table"], registry=registry)

    def counter(name: str, text: str) -> Counter:
        return Counter(f"deltasql_{name}", text, ["table"], registry=registry)

    def failures(name: str, text: str) -> Counter:
        return Counter(f"deltasql_{name}", text, ["table", "reason"], registry=registry)

    def latency(name: str, text: str) -> Histogram:
        return Histogram(
            f"deltasql_{name}", text, ["table"], registry=registry, buckets=_LATENCY_MS
        )

    def plain(name: str, text: str) -> Gauge:
        return Gauge(f"deltasql_{name}", text, registry=registry)

    return _Metrics(
        mirror_lag_seconds=gauge("mirror_lag_seconds", "Age of the oldest unmirrored version"),
        mirror_lag_versions=gauge("mirror_lag_versions", "Versions in SQL but not in the log"),
        mirror_backlog=gauge("mirror_backlog_gauge", "Versions waiting to be mirrored"),
        mirror_stuck_versions=gauge("mirror_stuck_versions", "Versions that gave up retrying"),
        mirror_findings=gauge("mirror_findings", "Differences that the last verify found"),
        mirror_latency=latency("mirror_latency_ms", "From commit to the log, in milliseconds"),
        mirror_failures=counter("mirror_failures_total", "Failed attempts to mirror a version"),
        open_latency=latency("metadata_open_latency_ms", "Reading a snapshot, in milliseconds"),
        commit_latency=latency("commit_latency_ms", "Committing a version, in milliseconds"),
        versions_committed=counter("versions_committed_total", "Versions committed"),
        files_active=gauge("files_active_gauge", "Live files of the newest version"),
        checkpoint_latency=latency("checkpoint_latency_ms", "Writing a checkpoint"),
        checkpoint_failures=counter("checkpoint_failures_total", "Checkpoints that failed"),
        reconciler_queries=plain("reconciler_queries", "Queries of this worker for work, so far"),
        reconciler_sweep=plain("reconciler_sweep_ms", "The last look over all tables"),
        stores_down=plain("stores_down", "Object stores that do not answer this worker"),
        store_up=Gauge(
            "deltasql_store_up",
            "1 if the store answered the last question of this worker, else 0",
            ["store"],
            registry=registry,
        ),
        commit_failures=failures("commit_failures_total", "Commits that were not made"),
        data_write_failures=failures("data_write_failures_total", "Writes whose data failed"),
        tables_in_conflict=plain("tables_in_conflict", "Tables whose log contradicts SQL"),
    )


def _count(metrics: _Metrics, event: Event) -> None:
    table = event.table
    match event:
        case VersionCommitted():
            metrics.versions_committed.labels(table).inc()
            metrics.commit_latency.labels(table).observe(event.latency_ms)
            if event.files_active is not None:
                metrics.files_active.labels(table).set(event.files_active)
        case SnapshotOpened():
            metrics.open_latency.labels(table).observe(event.latency_ms)
        case VersionMirrored():
            metrics.mirror_latency.labels(table).observe(event.latency_ms)
        case MirrorFailed() | MirrorConflicted():
            metrics.mirror_failures.labels(table).inc()
        case CheckpointWritten():
            metrics.checkpoint_latency.labels(table).observe(event.latency_ms)
        case CheckpointFailed():
            metrics.checkpoint_failures.labels(table).inc()
        case ReconcilePassFinished():
            metrics.reconciler_queries.set(event.queries)
            metrics.reconciler_sweep.set(event.latency_ms)
            metrics.stores_down.set(event.stores_down)
            metrics.tables_in_conflict.set(event.conflicts)
        case _:
            _count_state(metrics, event)


def _count_state(metrics: _Metrics, event: Event) -> None:
    """What a worker sees at the moment, and what failed."""
    table = event.table
    match event:
        case LagMeasured():
            metrics.mirror_lag_seconds.labels(table).set(event.lag_seconds)
            metrics.mirror_lag_versions.labels(table).set(event.lag_versions)
            metrics.mirror_backlog.labels(table).set(event.lag_versions)
            metrics.mirror_stuck_versions.labels(table).set(event.stuck_versions)
        case FindingsCounted():
            metrics.mirror_findings.labels(table).set(event.findings)
        case CommitFailed():
            metrics.commit_failures.labels(table, event.reason).inc()
        case CommitConflicted():
            metrics.commit_failures.labels(table, "conflict").inc()
        case DataWriteFailed():
            metrics.data_write_failures.labels(table, event.reason).inc()
        case StoreProbed():
            metrics.store_up.labels(event.store).set(event.error_code is None)
            metrics.stores_down.set(event.stores_down)
        case _:
            pass


@contextmanager
def span(name: str, **attributes: str | float | bool) -> Iterator[None]:
    """Trace the block as `deltasql.<name>`; without an SDK of the host this does nothing.

    An error marks the span with its code: its text and traceback stay out of the trace.
    """
    from opentelemetry import trace  # noqa: PLC0415 (only who traces pays for it)

    spelled = {f"deltasql.{key}": value for key, value in attributes.items()}
    tracer = trace.get_tracer("deltasql")
    with tracer.start_as_current_span(
        f"deltasql.{name}",
        attributes=spelled,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except Exception as error:
            code = error.code if isinstance(error, DeltaSqlError) else type(error).__name__
            current.set_attribute("error.type", code)
            current.set_status(trace.StatusCode.ERROR)
            raise
