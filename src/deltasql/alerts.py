"""Alerts: what is wrong with a mirror, what to do about it, and where to say so."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

_logger = logging.getLogger("deltasql.alerts")
_TIMEOUT_S = 10.0

Severity = Literal["critical", "warning"]
AlertSink = Callable[["Alert"], None]


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that somebody should look at. `kind` and `table` tell repeats from news."""

    kind: str
    severity: Severity
    table: str
    title: str
    facts: tuple[str, ...]
    action: str
    error_code: str | None = None

    def text(self) -> str:
        """Return the alert as people read it."""
        word = "CRITICAL" if self.severity == "critical" else "WARN"
        lines = [f"{word}: {self.title}", *(f"- {fact}" for fact in self.facts)]
        return "\n".join([*lines, f"- Recommended action: {self.action}"])


def log_alerts(alert: Alert) -> None:
    """Write an alert to the logger `deltasql.alerts`."""
    level = logging.ERROR if alert.severity == "critical" else logging.WARNING
    fields = {
        "alert": alert.kind,
        "table": alert.table,
        "severity": alert.severity,
        "error_code": alert.error_code,
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


@dataclass(slots=True)
class AlertDesk:
    """Passes alerts on once, and again after a while; a sink that fails does not stop others."""

    sinks: Sequence[AlertSink] = (log_alerts,)
    repeat_after_s: float = 900.0
    _told: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, alert: Alert, now: float) -> bool:
        """Pass an alert on unless it was told a short while ago; `now` in seconds."""
        key = (alert.kind, alert.table)
        with self._lock:
            last = self._told.get(key)
            if last is not None and now - last < self.repeat_after_s:
                return False
            self._told[key] = now
        for sink in self.sinks:
            try:
                sink(alert)
            except Exception as error:  # noqa: BLE001 (an alert must not stop the mirror)
                _logger.warning("An alert could not be sent: %s.", type(error).__name__)
        return True

    def clear(self, kind: str, table: str) -> None:
        """Forget an alert whose cause is gone, so that its return is news."""
        with self._lock:
            self._told.pop((kind, table), None)
