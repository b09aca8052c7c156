"""Events reach every sink, and no sink can fail the work."""

import logging

import pytest

from deltasql.events import Event, VersionCommitted, discard, fan_out

EVENT = VersionCommitted(table_id="id", table="orders", version=3, operation="WRITE", latency_ms=1)


def test_every_sink_gets_the_event():
    first: list[Event] = []
    second: list[Event] = []
    fan_out(first.append, discard, second.append)(EVENT)
    assert first == second == [EVENT]


@pytest.mark.req("R32")
def test_a_failing_sink_fails_neither_the_work_nor_the_next_sink(caplog):
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("s3cr3t-canary")

    with caplog.at_level(logging.WARNING, "deltasql"):
        fan_out(broken, seen.append)(EVENT)
    assert seen == [EVENT]
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


def test_the_package_logger_is_silent_by_default():
    handlers = logging.getLogger("deltasql").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
