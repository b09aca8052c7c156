"""Workers compare every log with SQL once in an interval: in turn, told, and remembered in SQL."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import deltasql
from builders import a_table, an_add
from deltasql.events import (
    FindingsCounted,
    LogDiffers,
    LogVerified,
    ReconcilerFailed,
    fan_out,
)
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.mirror.worker.periodic_verify import PURPOSE
from deltasql.protocol.log_names import LAST_CHECKPOINT, commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.sinks import prometheus_sink
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind

HOUR = 3_600_000
DAY = 24 * HOUR
NEVER = threading.Event()
pytestmark = pytest.mark.req("R35", "R93")


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


class World:
    """A catalog whose time stands still, its events, and the faults of its stores."""

    def __init__(self, uri: str) -> None:
        self.clock, self.events, self.faults = Clock(), [], []
        self.registry = CollectorRegistry()
        self.uri = uri
        self.opened: list[deltasql.Catalog] = []

    def connect(self, **mirror) -> deltasql.Catalog:
        self.opened.append(
            deltasql.connect(
                self.uri,
                settings=Settings(mirror=MirrorSettings(**mirror)),
                clock=self.clock,
                sink=fan_out(self.events.append, prometheus_sink(self.registry)),
                wrap_store=lambda store: FaultyStore(store, tuple(self.faults)),
            )
        )
        self.opened[-1].create_if_missing()
        return self.opened[-1]

    def told(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def findings(self, table: str) -> float | None:
        return self.registry.get_sample_value("deltasql_mirror_findings", {"table": table})


@pytest.fixture
def world(catalog_uri):
    made = World(catalog_uri)
    yield made
    for opened in made.opened:
        opened.close()


@pytest.fixture
def catalog(world):
    return world.connect()


def job_of(catalog, alerts=None):
    job = catalog.mirror.reconciler().verify
    job.desk = AlertDesk([] if alerts is None else [alerts.append])
    return job


def log_of(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def test_every_table_has_its_turn_spread_over_the_interval(world, catalog, tmp_path):
    names = [f"t{n}" for n in range(4)]
    for name in names:
        a_table(catalog, tmp_path, name)
    job = job_of(catalog)
    began = world.clock.now
    turns = []
    for _ in range(2 * 24 * 4):  # two days in quarters of an hour
        before = len(world.told(LogVerified))
        job.step(NEVER)
        turns += [(e.table, world.clock.now - began) for e in world.told(LogVerified)[before:]]
        world.clock.now += HOUR // 4
    assert [at for _, at in turns] == [6 * HOUR * n for n in range(8)]
    assert sorted(name for name, _ in turns[:4]) == names
    assert [name for name, _ in turns[4:]] == [name for name, _ in turns[:4]]


def test_the_pause_lasts_until_the_next_turn_and_never_long(world, catalog, tmp_path):
    assert job_of(catalog).step(NEVER) == 30.0
    a_table(catalog, tmp_path)
    job = job_of(catalog)
    job.step(NEVER)
    assert job.step(NEVER) == 30.0
    world.clock.now += DAY - 7_000
    assert job.step(NEVER) == pytest.approx(7.0)
    assert len(world.told(LogVerified)) == 1


def test_what_a_comparison_found_is_remembered_in_sql_and_shown(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    status = catalog.mirror.status("orders")
    assert (status["verified_at"], status["findings"]) == (None, None)
    table.commit([an_add("f")])
    job_of(catalog).step(NEVER)
    status = world.connect().mirror.status("orders")
    assert status["verified_at"] == "2027-01-15T08:00:00+00:00"
    assert status["findings"] == 0
    assert [(e.version, e.findings) for e in world.told(LogVerified)] == [(1, 0)]


@pytest.mark.req("R28")
def test_a_difference_is_an_event_an_alert_and_a_number(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.commit([an_add("f")])
    alerts = []
    job = job_of(catalog, alerts)
    good = (log_of(table) / commit_key(1)).read_bytes()
    flip(log_of(table) / commit_key(1))
    job.step(NEVER)
    (event,) = world.told(LogDiffers)
    assert (event.key, event.version, event.difference) == (commit_key(1), 1, "commit_bytes_differ")
    (alert,) = alerts
    assert (alert.kind, alert.severity) == ("mirror_differs_critical", "critical")
    assert commit_key(1) in alert.text()
    assert (
        "Recommended action: compare both; `deltasql mirror repair` with `replace=True`"
        in alert.text()
    )
    assert world.findings("orders") == 1
    assert catalog.mirror.status("orders")["findings"] == 1

    world.clock.now += DAY
    (log_of(table) / commit_key(1)).write_bytes(good)
    job.step(NEVER)
    assert world.findings("orders") == 0
    assert [alert.status for alert in alerts] == ["firing", "resolved"]


def test_a_difference_beside_the_commits_only_warns(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    alerts = []
    (log_of(table) / LAST_CHECKPOINT).write_bytes(b"{}")
    job_of(catalog, alerts).step(NEVER)
    assert [(alert.kind, alert.severity) for alert in alerts] == [("mirror_differs", "warning")]


def test_what_a_second_look_does_not_find_was_never_different(world, catalog, tmp_path):
    """Cleanup, repair and checkpoints go on while a log is compared."""
    table = a_table(catalog, tmp_path)
    key = log_of(table) / commit_key(0)
    good = key.read_bytes()
    flip(key)
    alerts = []
    job = job_of(catalog, alerts)
    compare, looks = job.sources.compare, []

    def repaired_meanwhile(row, effort):
        found = compare(row, effort)
        looks.append(len(found))
        key.write_bytes(good)
        return found

    job.sources = replace(job.sources, compare=repaired_meanwhile)
    job.step(NEVER)
    assert looks == [1, 0]
    assert alerts == world.told(LogDiffers) == []
    assert catalog.mirror.status("orders")["findings"] == 0


def test_several_workers_do_it_once(world, catalog, tmp_path):
    for number in range(3):
        a_table(catalog, tmp_path, f"t{number}")
    jobs = [job_of(world.connect()) for _ in range(4)]
    for _ in range(24):
        threads = [threading.Thread(target=job.step, args=(NEVER,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        world.clock.now += HOUR
    turns = [event.table for event in world.told(LogVerified)]
    assert sorted(turns) == ["t0", "t1", "t2"]
    assert world.told(ReconcilerFailed) == []


def test_a_table_that_another_worker_verifies_is_left_to_it(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    other = inspect(world.connect()).connection.leases
    held = other.acquire(table.table_id, PURPOSE)
    job = job_of(catalog)
    job.step(NEVER)
    assert world.told(LogVerified) == []
    other.release(held)
    job.step(NEVER)
    assert len(world.told(LogVerified)) == 1


def test_every_worker_tells_the_number_whoever_found_it(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    flip(log_of(table) / commit_key(0))
    job_of(catalog).step(NEVER)
    other = job_of(world.connect())
    world.events.clear()
    for _ in range(3):
        other.step(NEVER)
    assert [event.findings for event in world.told(FindingsCounted)] == [1]
    catalog.drop("orders", force=True)
    other.step(NEVER)
    assert world.findings("orders") == 0


@pytest.mark.parametrize("reason", ["behind", "paused", "off", "down"])
def test_a_table_that_cannot_be_compared_now_waits(world, tmp_path, reason):
    catalog = world.connect(mode="worker" if reason == "behind" else "inline")
    table = a_table(catalog, tmp_path, "waits")
    worker = catalog.mirror.reconciler()
    if reason == "paused":
        catalog.mirror.pause("waits")
    elif reason == "off":
        table.alter(properties={"deltasql.mirror.verify_interval": "off"})
    elif reason == "down":
        for _ in range(3):
            worker.breakers.failed(table.location)
    worker.verify.step(NEVER)
    assert world.told(LogVerified) == []
    if reason == "behind":
        worker.run_once()
        worker.verify.step(NEVER)
        assert len(world.told(LogVerified)) == 1


def test_a_store_that_fails_is_told_and_stops_no_other_table(world, tmp_path):
    bad = a_table(world.connect(), tmp_path, "bad")
    world.faults.append(Fault(Kind.FAIL_BEFORE, "list_from", times=10**9))
    job = job_of(world.connect())
    job.step(NEVER)
    assert [event.table for event in world.told(ReconcilerFailed)] == [bad.name]
    assert world.connect().mirror.status("bad")["verified_at"] is None
    world.faults.clear()
    world.clock.now += DAY
    job_of(world.connect()).step(NEVER)
    assert len(world.told(LogVerified)) == 1


def test_a_worker_that_ends_gives_the_comparison_up(world, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.commit([an_add("f")])
    stop = threading.Event()
    stop.set()
    job_of(catalog).step(stop)
    assert world.told(LogVerified) == world.told(ReconcilerFailed) == []
    assert inspect(catalog).connection.leases.acquire(table.table_id, PURPOSE) is not None


def test_a_long_comparison_keeps_its_lease(world, catalog, tmp_path):
    """Every object read is a moment to renew it; without that another worker would begin."""
    table = a_table(catalog, tmp_path)
    for number in range(8):
        table.commit([an_add(f"f{number}")])
    job = job_of(catalog)
    leases, ticks = job.sources.leases, iter(range(10**6))

    def slow() -> float:
        world.clock.now += leases.ttl_ms // 4
        return next(ticks) * leases.ttl_ms / 4000

    job.monotonic = slow
    job.step(NEVER)
    assert world.told(ReconcilerFailed) == []
    assert len(world.told(LogVerified)) == 1


def test_switched_off_nothing_is_compared(world):
    assert world.connect(verify_interval=timedelta(0)).mirror.reconciler().verify is None
    for text in ("0", "off", 0, "0s"):
        settings = Settings().for_table({"mirror.verify_interval": text})
        assert not settings.mirror.verify_interval
