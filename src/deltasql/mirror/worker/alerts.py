"""Alerts on lag, conflicts and failures: when one is raised, repeated and resolved.

An alert is an event with a severity. It goes to the catalog's sink like all events, and to the
receivers that the settings name.
"""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from deltasql.errors import DeltaSqlError
from deltasql.events import Alert, Event, LagMeasured, ReconcilePassFinished, Severity, Sink
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.compare import Difference, Finding
from deltasql.mirror.queue import LaggingTable

_logger = logging.getLogger("deltasql.alerts")
_TIMEOUT_S = 10.0

# Alerts that wait for a slow receiver; what comes on top is only logged.
_MAX_WAITING = 1_000

LAG, STUCK, CONFLICT = "mirror_lag", "mirror_stuck", "mirror_conflict"
DIFFERS = "mirror_differs"
FAILURE, DATABASE, STORE = "mirror_failure", "database_unavailable", "store_unavailable"

# A reader of the log sees other rows than SQL has; the rest only makes it slower, or may.
_GRAVE = {
    Difference.MISSING_COMMIT,
    Difference.COMMIT_BYTES_DIFFER,
    Difference.COMMIT_CONFLICT,
    Difference.COMMIT_NOT_IN_CATALOG,
}
_MOST_FACTS = 5


def log_alerts(alert: Event) -> None:
    """Write an alert to the logger `deltasql.alerts`; other events are passed over."""
    if not isinstance(alert, Alert):
        return
    level = logging.ERROR if alert.severity == "critical" else logging.WARNING
    if alert.status == "resolved":
        level = logging.WARNING  # whoever saw it begin sees it end
    fields = {
        "alert": alert.kind,
        "table": alert.table,
        "store": alert.store,
        "severity": alert.severity,
        "error_code": alert.error_code,
        "alert_status": alert.status,
        "catalog": alert.catalog,
        "worker": alert.worker,
    }
    _logger.log(level, "%s", alert.text(), extra=fields)


def _as_json(alert: Alert) -> bytes:
    return json.dumps(alert.to_dict()).encode()


def webhook_alerts(url: str) -> Sink:
    """Return a sink that posts alerts as JSON."""

    def send(alert: Event) -> None:
        if not isinstance(alert, Alert):
            return
        body = _as_json(alert)
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 (checked)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 (http or https)
            pass

    if not url.startswith(("http://", "https://")):
        raise ValueError("a webhook is an http or https address")
    return send


def command_alerts(command: str) -> Sink:
    """Return a sink that runs a program with the alert as JSON on its standard input."""
    words = shlex.split(command)
    if not words:
        raise ValueError("a command for alerts names a program")

    def send(alert: Event) -> None:
        if isinstance(alert, Alert):
            subprocess.run(  # noqa: S603 (the operator's own command, no shell)
                words, input=_as_json(alert), timeout=_TIMEOUT_S, check=True, capture_output=True
            )

    return send


class BackgroundSink:
    """Passes alerts on in a thread of its own, in order: a slow receiver stops nobody else."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, alert: Event) -> None:
        """Leave an alert to be sent."""
        with self._changed:
            if len(self._waiting) >= _MAX_WAITING:
                _logger.warning("An alert is not sent: %d others wait.", _MAX_WAITING)
                return
            self._waiting.append(alert)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._send_all, name="deltasql-alerts", daemon=True
                )
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is sent, at most so long; False if something is not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, seconds)

    def _send_all(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                alert = self._waiting.popleft()
            _send(self._sink, alert)


def _send(sink: Sink, alert: Event) -> None:
    try:
        sink(alert)
    except Exception as error:  # noqa: BLE001 (an alert must not stop the mirror)
        _logger.warning("An alert could not be sent: %s.", type(error).__name__)


@dataclass(slots=True)
class AlertDesk:
    """Passes alerts on once, again after a while, and once more when their cause is gone.

    A sink that fails does not stop others. `catalog` and `worker` go with every alert.
    """

    sinks: Sequence[Sink] = (log_alerts,)
    repeat_after_s: float = 900.0
    catalog: str = ""
    worker: str = ""
    clock: Callable[[], float] = time.time
    _told: dict[tuple[str, str], tuple[float, Alert]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, alert: Alert, now: float) -> bool:
        """Pass an alert on unless it was told a short while ago; `now` in seconds."""
        key = (alert.kind, alert.subject)
        with self._lock:
            last = self._told.get(key)
            if last is not None and now - last[0] < self.repeat_after_s:
                return False
            self._told[key] = (now, alert)
        self._pass_on(alert)
        return True

    def clear(self, kind: str, subject: str) -> None:
        """Say that the cause of an alert is gone, if it was told; its return is news."""
        with self._lock:
            told = self._told.pop((kind, subject), None)
        if told is not None:
            self._pass_on(replace(told[1], status="resolved"))

    def forget(self, kind: str, subject: str) -> None:
        """Let an alert be told again although its cause was never gone."""
        with self._lock:
            self._told.pop((kind, subject), None)

    def flush(self, seconds: float = _TIMEOUT_S) -> None:
        """Wait for alerts that are being sent in the background, at most so long for each sink."""
        for sink in self.sinks:
            if isinstance(sink, BackgroundSink) and not sink.flush(seconds):
                _logger.warning("Some alerts were not sent in %.0f s.", seconds)

    def _pass_on(self, alert: Alert) -> None:
        moment = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds")
        stamped = replace(alert, time=moment, catalog=self.catalog, worker=self.worker)
        for sink in self.sinks:
            _send(sink, stamped)


def lag_alert(
    table: str, lag_s: float, first_version: int, warn: timedelta, critical: timedelta
) -> Alert | None:
    """Return the alert for a lag, or None while it is short enough."""
    if lag_s <= warn.total_seconds():
        return None
    severity: Severity = "critical" if lag_s > critical.total_seconds() else "warning"
    limit = critical if severity == "critical" else warn
    return Alert(
        kind=LAG if severity == "warning" else f"{LAG}_critical",
        severity=severity,
        table=table,
        title=f"Mirror lag exceeds {_duration(limit.total_seconds())} for table {table}",
        facts=(f"Lag: {_duration(lag_s)}", f"First version not mirrored: {first_version}"),
        action="Check object store connectivity; see `deltasql mirror status`",
    )


def stuck_alert(table: str, version: int, attempts: int, error: str) -> Alert:
    """Return the alert for a version that gave up its quick retries."""
    return Alert(
        kind=STUCK,
        severity="warning",
        table=table,
        title=f"Mirror version stuck at {version} with {attempts} retries",
        facts=(f"Table: {table}", f"Error: {error}"),
        action="Check the object store's health and rights; `deltasql mirror repair` retries at "
        "once",
        error_code=_code(error),
    )


def failure_alert(table: str, version: int, error: str) -> Alert:
    """Return the alert for a table that the worker cannot mirror for a reason nobody expected."""
    return Alert(
        kind=FAILURE,
        severity="critical",
        table=table,
        title=f"The worker failed on version {version} of table {table}; it tries again",
        facts=(f"Table: {table}", f"Error: {error}"),
        action="The worker's log has the traceback; report it if `deltasql doctor` finds nothing",
        error_code=_code(error),
    )


def database_alert(error: DeltaSqlError) -> Alert:
    """Return the alert for a database that does not answer the worker."""
    return Alert(
        kind=DATABASE,
        severity="critical",
        table="",
        title="The worker cannot use the catalog's database; nothing is mirrored",
        facts=(f"Error: {error.code}: {error.message}",),
        action=error.advice or "Check the database; the worker goes on by itself",
        error_code=error.code,
    )


def store_alert(store: str, table: str, error: DeltaSqlError) -> Alert:
    """Return the alert for a store that does not answer the worker, or refuses it."""
    return Alert(
        kind=STORE,
        severity="critical",
        table="",
        title=f"The store {store} cannot be used; its tables can neither be written nor mirrored",
        facts=(f"Asked for: the owner marker of {table}", f"Error: {error.code}: {error.message}"),
        action=error.advice or "Check the store; the worker goes on by itself when it answers",
        error_code=error.code,
        store=store,
    )


def conflict_alert(table: str, version: int, key: str, error: str) -> Alert:
    """Return the alert for a log that holds what SQL does not know."""
    return Alert(
        kind=CONFLICT,
        severity="critical",
        table=table,
        title=f"The log of table {table} holds another commit than SQL; commits are refused",
        facts=(f"Key: {key}", f"Version: {version}", f"Error: {error}"),
        action=(
            "Nothing was overwritten. Compare with `deltasql mirror verify`, then decide which "
            "side stays with `deltasql mirror repair`"
        ),
        error_code=_code(error),
    )


def differs_alert(table: str, found: Sequence[Finding]) -> Alert:
    """Return the alert for a log that a comparison found to differ from SQL."""
    grave = [one for one in found if one.difference in _GRAVE]
    worst = [*grave, *(one for one in found if one not in grave)]
    facts = [f"{one.difference}: {one.key}: {one.detail}" for one in worst[:_MOST_FACTS]]
    if len(worst) > _MOST_FACTS:
        facts.append(f"And {len(worst) - _MOST_FACTS} more: `deltasql mirror verify {table}`")
    places = "1 place" if len(found) == 1 else f"{len(found)} places"
    return Alert(
        kind=f"{DIFFERS}_critical" if grave else DIFFERS,
        severity="critical" if grave else "warning",
        table=table,
        title=f"The log of table {table} differs from SQL in {places}",
        facts=tuple(facts),
        action=worst[0].action,
    )


def _code(error: str) -> str | None:
    """The code that a stored message begins with."""
    code, colon, _ = error.partition(":")
    return code if colon and code.startswith("DS") and code[2:].isdigit() else None


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 (a minute)
        return f"{whole} seconds"
    minutes = whole // 60
    return f"{minutes} minute{'s' if minutes != 1 else ''}"


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look over all tables found and did."""

    behind: int
    mirrored: int
    failed: int
    missing_rows: int


def lag_of(behind: LaggingTable, now: int) -> LagMeasured:
    """Return how far a table's log is behind at a moment, in milliseconds."""
    return LagMeasured(
        table_id=behind.table_id,
        table=behind.name,
        version=behind.current_version,
        lag_seconds=max(now - (behind.committed_at or now), 0) / 1000,
        lag_versions=behind.current_version - behind.mirrored_through,
        stuck_versions=1 if behind.status == "FAILED" else 0,
    )


def tell_caught_up(table_id: str, name: str, desk: AlertDesk, sink: Sink) -> None:
    """Say that a table's log has caught up: whatever was wrong with it is over."""
    for kind in (LAG, f"{LAG}_critical", STUCK, CONFLICT, FAILURE):
        desk.clear(kind, name)
    sink(LagMeasured(table_id=table_id, table=name, version=0, lag_seconds=0.0, lag_versions=0))


def swept(
    found: Sweep, tables: Sequence[TableRow], *, queries: int, stores_down: int, latency_ms: float
) -> ReconcilePassFinished:
    """Return what a look over all tables has seen, as an event."""
    return ReconcilePassFinished(
        table_id="",
        table="",
        version=0,
        behind=found.behind,
        missing_rows=found.missing_rows,
        queries=queries,
        stores_down=stores_down,
        latency_ms=latency_ms,
        conflicts=sum(row.state is TableState.CONFLICT for row in tables),
    )
