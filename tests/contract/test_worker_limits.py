"""What a worker may do in a while: its puts and checkpoints keep to the limit, a writer's never."""

import threading
from datetime import timedelta

import pytest

import deltasql
from builders import a_table, an_add
from deltasql.events import CheckpointWritten, VersionMirrored
from deltasql.mirror.worker.limits import RateLimiter
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from ticking import Clock, Stop

pytestmark = pytest.mark.req("R33")


@pytest.fixture
def events():
    return []


@pytest.fixture
def connect(catalog_uri, events):
    opened = []

    def make(**mirror):
        settings = Settings(mirror=MirrorSettings(**mirror))
        opened.append(deltasql.connect(catalog_uri, settings=settings, sink=events.append))
        opened[-1].create_if_missing()
        return opened[-1]

    yield make
    for catalog in opened:
        catalog.close()


def test_a_worker_puts_no_faster_than_its_limit(connect, tmp_path, events):
    catalog, clock = connect(mode="worker"), Clock()
    table = a_table(catalog, tmp_path)
    for number in range(59):
        table.commit([an_add(f"f{number}")])
    worker = catalog.mirror.reconciler()
    worker.puts = RateLimiter(10.0, 10.0, monotonic=clock)
    moments = []

    def note(event) -> None:
        if isinstance(event, VersionMirrored):
            moments.append(clock.now)

    worker.engine.connection.emit = note
    (behind,) = worker.tracker.find_behind()
    worker._drain(behind, Stop(clock), None)
    assert len(moments) == 60
    for first, last in zip(moments, moments[10:], strict=False):
        assert last - first >= 0.09  # never more than a second's worth and one at once
    assert 4.9 <= moments[-1] <= 6.0
    check_invariants(catalog, "orders")


def test_the_settings_set_the_limits_of_the_worker_alone(connect, tmp_path):
    catalog = connect(max_puts_per_second=3, max_checkpoints_per_minute=30)
    assert not inspect(catalog).mirroring.checkpoints.rate.is_limited
    worker = catalog.mirror.reconciler()
    assert (worker.puts.per_s, worker.puts.burst) == (3.0, 3.0)
    assert worker.checkpoints.rate.per_s == 0.5
    free = connect().mirror.reconciler()
    assert not free.puts.is_limited
    assert not free.checkpoints.rate.is_limited


def test_a_commit_that_mirrors_inline_knows_no_limit(connect, tmp_path, events):
    catalog = connect(max_puts_per_second=1, max_checkpoints_per_minute=1)
    worker = catalog.mirror.reconciler()
    worker.puts.try_take(10)
    assert worker.puts.try_take()[0] == 0
    table = a_table(catalog, tmp_path)
    for number in range(5):
        table.commit([an_add(f"f{number}")])
        assert catalog.mirror.status("orders")["lag_versions"] == 0


def test_a_worker_that_waits_for_its_limit_can_be_stopped(connect, tmp_path):
    catalog, stop = connect(mode="worker"), threading.Event()
    a_table(catalog, tmp_path)
    worker = catalog.mirror.reconciler()
    worker.verify = None
    worker.puts = RateLimiter(0.001)
    worker.puts.try_take()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert catalog.mirror.status("orders")["lag_versions"] == 1


def test_checkpoints_keep_to_their_limit_and_the_end_waits_for_none(connect, tmp_path, events):
    catalog = connect(mode="worker", checkpoint_interval=2)
    tables = [a_table(catalog, tmp_path, f"t{n}") for n in range(3)]
    for table in tables:
        for number in range(4):
            table.commit([an_add(f"f{number}")])
    clock, worker = Clock(), catalog.mirror.reconciler()
    checkpoints = inspect(catalog).mirroring.checkpoints
    checkpoints.rate = RateLimiter(1 / 60, monotonic=clock)
    worker.run_once()
    thread = threading.Thread(target=checkpoints.finish)
    thread.start()
    waited = threading.Event()
    while not waited.wait(0.02) and len(written(events)) < 1:
        pass
    assert len(written(events)) == 1  # the others wait: no time has passed
    clock.now += 60.0
    with checkpoints._changed:
        checkpoints._changed.notify_all()
    while not waited.wait(0.02) and len(written(events)) < 2:
        pass
    catalog.close()
    thread.join(30)
    assert not thread.is_alive()
    assert len(written(events)) == 2


def written(events) -> list:
    return [event for event in events if isinstance(event, CheckpointWritten)]


@pytest.mark.parametrize("name", ["max_puts_per_second", "max_checkpoints_per_minute"])
def test_a_limit_is_a_whole_number(name):
    assert getattr(Settings().for_table({f"mirror.{name}": "7"}).mirror, name) == 7
    with pytest.raises(deltasql.errors.ConfigError, match="a whole number from 0"):
        Settings().for_table({f"mirror.{name}": "-1"})


def test_the_interval_of_verify_is_a_duration_or_off():
    assert Settings().mirror.verify_interval == timedelta(days=1)
    with pytest.raises(deltasql.errors.ConfigError, match="or off"):
        Settings().for_table({"mirror.verify_interval": "never"})
