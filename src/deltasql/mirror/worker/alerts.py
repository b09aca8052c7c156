"""Sinks for alerts, and who decides when an alert is news.

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
from datetime import UTC, datetime

from deltasql.events import Alert, Event, Sink

_logger = logging.getLogger("deltasql.alerts")
_TIMEOUT_S = 10.0
# Alerts that wait for a slow receiver; what comes on top is only logged.
_MAX_WAITING = 1_000


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
