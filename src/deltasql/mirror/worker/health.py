"""The worker's own small web server: is it alive, is it ready, and its metrics.

Binds to the loopback unless told otherwise; it answers GET and nothing else.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from deltasql.errors import ListenError


@dataclass(frozen=True, slots=True)
class Health:
    """What the endpoints tell; `is_ready` says whether the worker does its work right now."""

    is_ready: Callable[[], bool]
    facts: Callable[[], dict[str, object]]
    metrics: Callable[[], bytes]


class HealthServer:
    """Serves /healthz, /readyz and /metrics until it is closed."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        """Begin to listen.

        Raises:
            ListenError: the address is taken, or not one of this machine.
        """
        handler = type("_Handler", (_Handler,), {"health": health})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it is no address"
            raise ListenError(
                f"Nothing can listen on {host}:{port}: {reason}.", address=f"{host}:{port}"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="deltasql-health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


class _Handler(BaseHTTPRequestHandler):
    health: Health
    server_version = "deltasql"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one of the three questions."""
        match self.path.split("?", 1)[0]:
            case "/healthz":
                self._answer(200, "text/plain", b"ok\n")
            case "/readyz":
                ready = self.health.is_ready()
                body = json.dumps({"ready": ready, **self.health.facts()}).encode() + b"\n"
                self._answer(200 if ready else 503, "application/json", body)
            case "/metrics":
                self._answer(200, "text/plain; version=0.0.4", self.health.metrics())
            case _:
                self._answer(404, "text/plain", b"not found\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
        """Say nothing: whoever asks every few seconds would fill the log."""

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
