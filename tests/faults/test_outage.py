"""A store that is away for long: commits do not wait for it, and what waited arrives in order."""

import threading
from collections import defaultdict
from datetime import timedelta

import pytest

import deltasql
import servers
from builders import SCHEMA, a_table, an_add
from deltasql.events import MirrorFailed, VersionMirrored
from deltasql.mirror.worker.reconciler import ReconciliationConfig
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from deltasql.testing.invariants import check_invariants
from processes import until

TABLES, COMMITS = 20, 20
QUICK = Settings(mirror=MirrorSettings(inline_deadline=timedelta(milliseconds=50)))


class Outage:
    """A store whose puts hang while it is away, and then fail or go through."""

    def __init__(self) -> None:
        self.is_over, self.is_on = threading.Event(), False

    def wrap(self, store):
        if not store.uri.startswith("s3:"):
            return store
        late = [Fault(Kind.DELAY, "put_if_absent", "*.json", times=None, seconds=1.0)]
        hung = FaultyStore(store, late, sleep=lambda _: self.is_over.wait(240))
        return Away(store, hung, self)


class Away:
    def __init__(self, well, hung, outage) -> None:
        self._well, self._hung, self._outage = well, hung, outage

    def __getattr__(self, name):
        return getattr(self._hung if self._outage.is_on else self._well, name)


@pytest.mark.verify
@pytest.mark.req("R32")
@pytest.mark.req("R46")
def test_many_tables_live_through_an_outage(catalog_uri, s3_server, fresh_name, tmp_path):
    outage, events = Outage(), []
    with deltasql.connect(
        catalog_uri,
        settings=QUICK,
        sink=events.append,
        storage_options=servers.s3_options(s3_server.endpoint),
        wrap_store=outage.wrap,
    ) as catalog:
        place = f"s3://{servers.BUCKET}/outage-{fresh_name}"
        tables = [
            catalog.create_table(
                f"t{n}", location=f"{place}/t{n}", schema=SCHEMA, partition_by=["day"]
            )
            for n in range(TABLES)
        ]
        for table in tables:
            table.wait_mirrored()
        names = [table.name for table in tables]
        here = a_table(catalog, tmp_path, "here")
        events.clear()
        outage.is_on = True
        try:
            for number in range(COMMITS):
                for table in (*tables, here):
                    assert table.commit([an_add(f"f{number}")]) == number + 1
                # the other store's table is up to date all the time
                assert catalog.mirror.status("here")["lag_versions"] == 0
            # every commit has returned and not one put has: nobody waited for an answer
            away = [e for e in events if isinstance(e, VersionMirrored | MirrorFailed)]
            assert {event.table for event in away} == {"here"}
            for table in tables:
                assert catalog.mirror.status(table.name)["lag_versions"] == COMMITS
        finally:
            outage.is_on = False
            outage.is_over.set()
    with deltasql.connect(
        catalog_uri,
        sink=events.append,
        storage_options=servers.s3_options(s3_server.endpoint),
    ) as catalog:
        catalog.mirror.run_once()
        order = defaultdict(list)
        for event in events:
            if isinstance(event, VersionMirrored):
                order[event.table].append(event.version)
        for name in names:
            # two that put the same bytes may both tell it, but none before its predecessor
            assert list(dict.fromkeys(order[name])) == list(range(1, COMMITS + 1))
            check_invariants(catalog, name)
            assert catalog.mirror.verify(name) == []


def test_stores_that_hang_do_not_starve_the_others(catalog_uri, tmp_path, monkeypatch):
    """More tables hang than may be mirrored at a time; each local table is a store by itself."""
    monkeypatch.setattr("deltasql.mirror.worker.limits.HUNG_S", 0.2)
    over, away = threading.Event(), threading.Event()

    def wrap(store):
        if "bad" not in store.uri:
            return store
        late = [Fault(Kind.DELAY, "put_if_absent", "*.json", times=None, seconds=1.0)]
        return FaultyStore(store, late, sleep=lambda _: over.wait(60) if away.is_set() else None)

    worker = Settings(mirror=MirrorSettings(mode="worker"))
    with deltasql.connect(catalog_uri, settings=worker, wrap_store=wrap) as catalog:
        bad = [a_table(catalog, tmp_path, f"bad{number}") for number in range(6)]
        good = a_table(catalog, tmp_path, "good")
        catalog.mirror.run_once()
        away.set()
        for table in (*bad, good):
            table.commit([an_add("f")])
        stop = threading.Event()
        config = ReconciliationConfig(poll=timedelta(milliseconds=50), max_concurrency=4)
        serving = threading.Thread(target=catalog.mirror.reconciler(config).run, args=(stop,))
        serving.start()
        try:
            until(lambda: catalog.mirror.status("good")["lag_versions"] == 0)
            assert not over.is_set()
            assert all(catalog.mirror.status(one.name)["lag_versions"] == 1 for one in bad)
            over.set()
            until(lambda: all(catalog.mirror.status(t.name)["lag_versions"] == 0 for t in bad))
        finally:
            over.set()
            stop.set()
            serving.join()
        for table in (*bad, good):
            check_invariants(catalog, table.name)
