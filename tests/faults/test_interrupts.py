"""Ctrl-C at any moment leaves nobody locked out, nothing stale and no commit twice."""

import psycopg
import pytest

import deltasql
import processes
from builders import NO_MIRROR, a_table, an_add
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.req("R2")


def _interrupt(uri: str, tmp_path, seed: int, count: int) -> None:
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        worker = processes.start("append_interrupted", uri, "orders", str(seed), str(count))
        acknowledged = processes.finish(worker)
        acknowledged["other"] = table.commit([an_add("other")], commit_id="other")
        assert len(acknowledged) == count + 1
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def test_interrupts_at_random_moments_lock_nobody_out(catalog_uri, tmp_path):
    _interrupt(catalog_uri, tmp_path, seed=1, count=60)


@pytest.mark.verify
def test_five_hundred_interrupts_at_random_moments_lock_nobody_out(catalog_uri, tmp_path):
    _interrupt(catalog_uri, tmp_path, seed=2, count=500)


@pytest.mark.verify
def test_interrupts_of_the_main_thread_leave_no_other_thread_waiting(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        name = "append_interrupted_beside_threads"
        found = processes.finish(processes.start(name, catalog_uri, "orders", "3", "120"))
        assert found["interrupts"] >= 118  # the collector of garbage swallows one now and then
        # one that waits for an outcome that nobody will bring waits for two minutes
        assert found["longest_wait_s"] < 60
        assert len(found["acknowledged"]) > 120
        check_invariants(catalog, "orders", acknowledged=found["acknowledged"])


def test_an_interrupt_inside_a_pipeline_is_told_as_such(postgres_server, tmp_path, monkeypatch):
    """psycopg says "cannot exit pipeline mode while busy" then, as if the database were away."""
    fetch = psycopg.Cursor._select_current_result
    uri = postgres_server.uri(postgres_server.create_database_name())
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        interrupts = []

        def interrupted(self, *args, **kwargs):
            if not interrupts and self.connection.info.pipeline_status:
                interrupts.append(self)
                raise KeyboardInterrupt
            return fetch(self, *args, **kwargs)

        monkeypatch.setattr(psycopg.Cursor, "_select_current_result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.alter(properties={"k": "v"}, commit_id="token")
        monkeypatch.undo()
        assert interrupts
        version = table.alter(properties={"k": "v"}, commit_id="token")
        assert version == 1
        check_invariants(catalog, "orders", acknowledged={"token": version})
