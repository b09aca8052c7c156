"""A table in conflict is seen: counted, measured, alerted about, whoever met the conflict."""

import json
import logging

import pytest
from prometheus_client import CollectorRegistry

import deltasql
from builders import a_table, an_add, rows
from deltasql.cli.app import JsonLines
from deltasql.events import Alert, fan_out
from deltasql.mirror.worker.alerts import AlertDesk, stuck_alert
from deltasql.sinks import logging_sink, prometheus_sink
from foreign import a_foreign_file, put_foreign


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def catalog(catalog_uri, registry):
    sink = fan_out(logging_sink(), prometheus_sink(registry))
    with deltasql.connect(catalog_uri, sink=sink) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def contested(catalog, tmp_path):
    """A conflict that the writer's own mirror met: no worker ran then."""
    table = a_table(catalog, tmp_path)
    put_foreign(table, 1, a_foreign_file(table, 100))
    table.append(rows(1))
    assert table.state == "conflict"
    return table


@pytest.fixture
def alerts():
    return []


@pytest.fixture
def reconciler(catalog, alerts):
    made = catalog.mirror.reconciler()
    made.desk = AlertDesk([alerts.append])
    return made


@pytest.mark.req("R28")
def test_the_worker_alerts_about_a_conflict_that_a_writer_met(contested, reconciler, alerts):
    swept = reconciler.run_once()
    assert (swept.behind, swept.failed) == (0, 0)  # it is not the worker's to settle
    (told,) = alerts
    assert (told.kind, told.severity, told.table) == ("mirror_conflict", "critical", "orders")
    assert told.error_code == "DS501"
    assert "00000000000000000001.json" in told.text()
    reconciler.run_once()
    assert alerts == [told]  # once, and again after a while


def test_a_conflict_that_is_settled_and_comes_back_is_news(contested, catalog, reconciler, alerts):
    reconciler.run_once()
    catalog.mirror.repair("orders", replace=True)
    reconciler.run_once()
    put_foreign(contested, 2, a_foreign_file(contested, 101))
    contested.append(rows(2))
    reconciler.run_once()
    assert {alert.kind for alert in alerts} == {"mirror_conflict"}
    assert [alert.status for alert in alerts] == ["firing", "resolved", "firing"]


def test_a_table_in_conflict_is_counted_and_its_lag_stays_visible(
    contested, catalog, reconciler, registry
):
    reconciler.run_once()
    assert registry.get_sample_value("deltasql_tables_in_conflict") == 1
    where = {"table": "orders"}
    assert registry.get_sample_value("deltasql_mirror_lag_versions", where) == 1
    assert registry.get_sample_value("deltasql_mirror_lag_seconds", where) >= 0
    later = contested.history(1)[0].committed_at + 900_000
    reconciler.clock = lambda: later
    reconciler.run_once()
    assert registry.get_sample_value("deltasql_mirror_lag_seconds", where) == 900
    catalog.mirror.repair("orders", replace=True)
    reconciler.run_once()
    assert registry.get_sample_value("deltasql_tables_in_conflict") == 0
    assert registry.get_sample_value("deltasql_mirror_lag_versions", where) == 0


def test_the_stored_message_of_a_conflict_begins_with_its_code(contested, catalog):
    assert catalog.mirror.status("orders")["error"].startswith("DS501: ")


def test_lines_of_the_log_tell_the_code_of_an_error(catalog, tmp_path, caplog):
    table = a_table(catalog, tmp_path)
    put_foreign(table, 1)
    with caplog.at_level(logging.DEBUG, "deltasql"):
        table.commit([an_add("ours")])
    record = next(one for one in caplog.records if "mirror_conflicted" in one.getMessage())
    assert record.getMessage() == "mirror_conflicted orders@1 DS501"
    line = json.loads(JsonLines().format(record))
    assert (line["event"], line["error_code"], line["level"]) == (
        "mirror_conflicted",
        "DS501",
        "WARNING",
    )
    mirrored = next(one for one in caplog.records if "version_committed" in one.getMessage())
    assert mirrored.getMessage() == "version_committed orders@1"


def test_the_sink_of_the_catalog_gets_the_alerts_of_its_worker(catalog_uri):
    events = []
    with deltasql.connect(catalog_uri, sink=events.append) as catalog:
        catalog.create_if_missing()
        desk = catalog.mirror.reconciler().desk
        desk.tell(stuck_alert("orders", 3, 5, "DS403: refused"), 0.0)
    (alert,) = [event for event in events if isinstance(event, Alert)]
    assert (alert.severity, alert.table, alert.status) == ("warning", "orders", "firing")
    assert alert.catalog
