"""Alerts: told once and again after a while, to whatever listens."""

import json
import logging
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

from deltasql.events import Alert, VersionMirrored
from deltasql.mirror.worker.alerts import (
    AlertDesk,
    BackgroundSink,
    command_alerts,
    log_alerts,
    webhook_alerts,
)
from deltasql.sinks import logging_sink

ALERT = Alert(
    kind="mirror_stuck",
    severity="warning",
    table="orders",
    title="It is stuck",
    facts=("Error: x",),
    action="Look",
)


def test_alerts_are_told_once_and_again_after_a_while():
    told = []
    desk = AlertDesk([_failing, told.append], repeat_after_s=10)
    assert [desk.tell(ALERT, now) for now in (0, 5, 11)] == [True, False, True]
    desk.clear("mirror_stuck", "orders")
    desk.clear("mirror_stuck", "orders")  # says nothing twice
    assert desk.tell(ALERT, 12)
    desk.forget("mirror_stuck", "orders")
    assert desk.tell(ALERT, 13)
    assert [alert.status for alert in told] == ["firing"] * 2 + ["resolved"] + ["firing"] * 2
    assert told[2].text() == "RESOLVED: It is stuck"


def test_alerts_say_when_and_by_whom_they_are_told():
    told = []
    desk = AlertDesk([told.append], catalog="c-1", worker="host/1/w", clock=lambda: 1.5)
    desk.tell(ALERT, 0)
    assert told == [
        replace(ALERT, time="1970-01-01T00:00:01.500+00:00", catalog="c-1", worker="host/1/w")
    ]


def test_a_slow_receiver_holds_nobody_up_and_gets_everything_in_order():
    received, may_go_on = [], threading.Event()

    def slow(alert):
        may_go_on.wait(30)
        received.append(alert.table)

    sink = BackgroundSink(slow)
    quick = []
    desk = AlertDesk([sink, quick.append])
    for number in range(5):
        desk.tell(replace(ALERT, table=f"t{number}"), 0)
    assert (len(quick), received) == (5, [])
    assert not sink.flush(0)
    may_go_on.set()
    desk.flush()
    assert received == [f"t{number}" for number in range(5)]


def test_a_receiver_that_fails_in_the_background_is_logged(caplog):
    sink = BackgroundSink(_failing)
    AlertDesk([sink]).tell(ALERT, 0)
    assert sink.flush(30)
    assert "An alert could not be sent: OSError." in caplog.text


def test_an_alert_is_an_event_with_a_logger_of_its_own(caplog):
    caplog.set_level(logging.DEBUG)
    logging_sink()(ALERT)
    assert caplog.records == []
    log_alerts(ALERT)
    log_alerts(VersionMirrored(table_id="i", table="orders", version=3, key="k", latency_ms=1.0))
    assert [record.name for record in caplog.records] == ["deltasql.alerts"]


def test_receivers_pass_other_events_over(tmp_path):
    event = VersionMirrored(table_id="i", table="orders", version=3, key="k", latency_ms=1.0)
    webhook_alerts("http://127.0.0.1:1/x")(event)
    out = tmp_path / "alert.json"
    command_alerts(f"touch {out}")(event)
    assert not out.exists()


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
    assert list(received[0]) == [
        "kind",
        "severity",
        "table",
        "title",
        "facts",
        "action",
        "error_code",
        "store",
        "status",
        "time",
        "catalog",
        "worker",
        "text",
    ]
    assert received[0]["title"] == "It is stuck"
    assert received[0]["text"].startswith("WARN: It is stuck")
    out = tmp_path / "alert.json"
    command_alerts(f"{sys.executable} -c \"open({str(out)!r}, 'w').write(input())\"")(ALERT)
    assert json.loads(out.read_text())["table"] == "orders"
