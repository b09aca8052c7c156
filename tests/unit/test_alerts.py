"""Alerts: told once and again after a while, to whatever listens."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from deltasql.alerts import Alert, AlertDesk, command_alerts, webhook_alerts

ALERT = Alert("mirror_stuck", "warning", "orders", "It is stuck", ("Error: x",), "Look")


def test_alerts_are_told_once_and_again_after_a_while():
    told = []
    desk = AlertDesk([_failing, told.append], repeat_after_s=10)
    assert [desk.tell(ALERT, now) for now in (0, 5, 11)] == [True, False, True]
    desk.clear("mirror_stuck", "orders")
    assert desk.tell(ALERT, 12)
    assert told == [ALERT] * 3


def _failing(alert):
    raise OSError("no network")


def test_alerts_reach_a_webhook_and_a_command(tmp_path):
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        webhook_alerts(f"http://127.0.0.1:{server.server_port}/x")(ALERT)
        thread.join(10)
    assert received[0]["title"] == "It is stuck"
    assert received[0]["text"].startswith("WARN: It is stuck")
    out = tmp_path / "alert.json"
    command_alerts(f"{sys.executable} -c \"open({str(out)!r}, 'w').write(input())\"")(ALERT)
    assert json.loads(out.read_text())["table"] == "orders"
