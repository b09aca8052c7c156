"""Alerts: what is wrong with a mirror, what to do about it, and where to say so."""

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
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

_logger = logging.getLogger("deltasql.alerts")
_TIMEOUT_S = 10.0
# Alerts that wait for a slow receiver; what comes on top is only logged.
_MAX_WAITING = 1_000

Severity = Literal["critical", "warning"]
AlertSink = Callable[["Alert"], None]


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that somebody should look at, or (`resolved`) no longer need to.

    Alerts with the same `kind` and `table` or `store` are repeats. `time` is in UTC; `catalog` and
    `worker` are the ids of the sender.
    """

    kind: str
    severity: Severity
    table: str
    title: str
    facts: tuple[str, ...]
    action: str
    error_code: str | None = None
    store: str = ""
    status: Literal["firing", "resolved"] = "firing"
    time: str = ""
    catalog: str = ""
    worker: str = ""

    @property
    def subject(self) -> str:
        """What it is about: a table, a store, or the whole catalog."""
        return self.table or self.store

    def text(self) -> str:
        """Return the alert as people read it."""
        if self.status == "resolved":
            return f"RESOLVED: {self.title}"
        word = "CRITICAL" if self.severity == "critical" else "WARN"
        lines = [f"{word}: {self.title}", *(f"- {fact}" for fact in self.facts)]
        return "\n".join([*lines, f"- Recommended action: {self.action}"])


def log_alerts(alert: Alert) -> None:
    """Write an alert to the logger `deltasql.alerts`."""
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


def webhook_alerts(url: str) -> AlertSink:
    """Return a sink that posts alerts as JSON."""

    def send(alert: Alert) -> None:
        body = json.dumps({**asdict(alert), "text": alert.text()}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 (checked)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 (http or https)
            pass

    if not url.startswith(("http://", "https://")):
        raise ValueError("a webhook is an http or https address")
    return send


def command_alerts(command: str) -> AlertSink:
    """Return a sink that runs a program with the alert as JSON on its standard input."""
    words = shlex.split(command)
    if not words:
        raise ValueError("a command for alerts names a program")

    def send(alert: Alert) -> None:
        body = json.dumps({**asdict(alert), "text": alert.text()}).encode()
        subprocess.run(  # noqa: S603 (the operator's own command, no shell)
            words, input=body, timeout=_TIMEOUT_S, check=True, capture_output=True
        )

    return send


class BackgroundSink:
    """Passes alerts on in a thread of its own, in order: a slow receiver stops nobody else."""

    def __init__(self, sink: AlertSink) -> None:
        self._sink = sink
        self._waiting: deque[Alert] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, alert: Alert) -> None:
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


def _send(sink: AlertSink, alert: Alert) -> None:
    try:
        sink(alert)
    except Exception as error:  # noqa: BLE001 (an alert must not stop the mirror)
        _logger.warning("An alert could not be sent: %s.", type(error).__name__)


@dataclass(slots=True)
class AlertDesk:
    """Passes alerts on once, again after a while, and once more when their cause is gone.

    A sink that fails does not stop others. `catalog` and `worker` go with every alert.
    """

    sinks: Sequence[AlertSink] = (log_alerts,)
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
