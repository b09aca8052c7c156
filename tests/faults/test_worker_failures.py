"""A worker that meets what nobody expected: reported, counted, put off and alerted."""

import logging
import threading
from concurrent.futures import Future
from datetime import timedelta

import pytest

import deltasql
from builders import SCHEMA, a_table, rows
from deltasql.errors import CatalogUnavailableError
from deltasql.events import MirrorFailed, ReconcilerFailed
from deltasql.mirror.after_commit import InlineMirror
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.settings import MirrorSettings, Settings
from deltasql.sinks import logging_sink

WORKER = Settings(mirror=MirrorSettings(mode="worker"))


@pytest.fixture
def events():
    return []


@pytest.fixture
def catalog(tmp_path, events):
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    with deltasql.connect(uri, settings=WORKER, sink=events.append) as made:
        made.create_if_missing()
        yield made


@pytest.fixture
def alerts():
    return []


@pytest.fixture
def worker(catalog, alerts):
    made = catalog.mirror.reconciler()
    made.desk = AlertDesk([alerts.append])
    return made


def loops(worker, monkeypatch, count):
    """Let the worker go round `count` times, without waiting in between."""
    stop = threading.Event()
    left = [count]

    def wait(*_, **__):
        left[0] -= 1
        if not left[0]:
            stop.set()

    monkeypatch.setattr(type(worker.wakes), "wait", wait)
    monkeypatch.setattr(type(worker.wakes), "listen", lambda _: None)
    worker.run(stop)


@pytest.mark.req("R17", "R18")
def test_an_unexpected_error_of_a_drain_is_told_counted_put_off_and_alerted(  # noqa: PLR0917
    catalog, worker, events, alerts, tmp_path, monkeypatch, caplog
):
    a_table(catalog, tmp_path).append(rows(1))
    tried = []

    def fail(*_):
        tried.append(1)
        raise KeyError("s3cr3t")

    monkeypatch.setattr(type(worker.engine), "mirror_batch", fail)
    swept = worker.run_once()
    assert (swept.mirrored, swept.failed) == (0, 1)
    (failed,) = [event for event in events if isinstance(event, MirrorFailed)]
    assert (failed.table, failed.version, failed.error_code) == ("orders", 0, "DS000")
    assert [alert.table for alert in alerts] == ["orders"]
    assert "KeyError" in alerts[0].text()
    assert "s3cr3t" not in alerts[0].text()
    assert "KeyError" in catalog.mirror.status("orders")["error"]
    assert any(record.exc_info for record in caplog.records)
    loops(worker, monkeypatch, 1)  # a new table is tried at once
    before = len(tried)
    loops(worker, monkeypatch, 20)
    assert len(tried) == before


def test_after_the_cause_is_gone_the_table_is_mirrored(
    catalog, worker, tmp_path, monkeypatch, alerts
):
    a_table(catalog, tmp_path).append(rows(1))
    with monkeypatch.context() as patch:
        patch.setattr(type(worker.engine), "mirror_batch", lambda *_: {}["nothing"])
        worker.run_once()
    assert alerts
    assert worker.run_once().mirrored == 2
    assert catalog.mirror.lag("orders") is None


def test_a_database_that_does_not_answer_is_one_line_and_one_alert(  # noqa: PLR0917
    catalog, worker, events, alerts, tmp_path, monkeypatch, caplog
):
    worker.sink = lambda event: (events.append(event), logging_sink()(event))

    def fail(*_):
        raise CatalogUnavailableError("The database at db.example does not answer.")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "deltasql"):
        patch.setattr(type(worker.tracker), "find_behind", fail)
        loops(worker, patch, 5)
    assert len([event for event in events if isinstance(event, ReconcilerFailed)]) == 1
    lines = [record.getMessage() for record in caplog.records if record.name == "deltasql"]
    assert lines == ["reconciler_failed DS306: The database at db.example does not answer."]
    assert [alert.error_code for alert in alerts] == ["DS306"]
    loops(worker, monkeypatch, 1)
    with monkeypatch.context() as patch:
        patch.setattr(type(worker.tracker), "find_behind", fail)
        loops(worker, patch, 1)
    # it had answered in between: that is news
    assert [alert.status for alert in alerts] == ["firing", "resolved", "firing"]


def test_the_tables_of_a_transaction_are_mirrored_side_by_side(catalog_uri, tmp_path, monkeypatch):
    """`inline_deadline` counts for the whole transaction: no table waits for another's store."""
    names = ["a", "b", "c", "d"]
    settings = Settings(mirror=MirrorSettings(inline_deadline=timedelta(seconds=60)))
    together = threading.Barrier(len(names))
    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        for name in names:
            catalog.create_table(name, location=f"memory://{tmp_path.name}/{name}", schema=SCHEMA)
        inline = InlineMirror._mirror

        def meet(mirror, done):
            together.wait(20)
            return inline(mirror, done)

        monkeypatch.setattr(InlineMirror, "_mirror", meet)
        with catalog.transaction() as tx:
            for name in names:
                tx.table(name).append(rows(1))
        assert not together.broken
        assert [catalog.mirror.lag(name) for name in names] == [None] * 4


def test_a_deadline_that_is_over_waits_for_nobody(catalog):
    inline = InlineMirror(catalog.mirror.reconciler().engine, 60.0, monotonic=lambda: 100.0)
    assert inline.wait(Future(), until=99.0) is None
