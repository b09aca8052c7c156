"""The reconciler: whatever failed reaches the log without a hand, in order, and is told."""

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

import deltasql
from builders import a_table, an_add, rows
from deltasql.errors import AccessDeniedError, ConfigError, StorageUnavailableError
from deltasql.events import LagMeasured, ReconcilePassFinished, ReconcilerFailed
from deltasql.mirror.worker.alerts import AlertDesk
from deltasql.mirror.worker.limits import CircuitBreakers
from deltasql.mirror.worker.reconciler import MirrorReconciler, ReconciliationConfig
from deltasql.protocol.log_names import commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from deltasql.testing.invariants import check_invariants
from processes import until

WORKER = Settings(mirror=MirrorSettings(mode="worker"))
QUICK = ReconciliationConfig(
    interval=timedelta(seconds=0.3), poll=timedelta(seconds=0.05), max_concurrency=4
)


class Switch:
    """A store that suffers the faults of its table's list."""

    def __init__(self, inner, faults):
        self._inner, self._faults = inner, faults

    def __getattr__(self, name):
        if self._faults:
            return getattr(FaultyStore(self._inner, tuple(self._faults)), name)
        return getattr(self._inner, name)


@pytest.fixture
def events():
    return []


@pytest.fixture
def faults():
    return {}


@pytest.fixture
def catalog(catalog_uri, events, faults):
    def wrap(store):
        return Switch(store, faults.setdefault(Path(store.uri).name, []))

    with deltasql.connect(
        catalog_uri, settings=WORKER, sink=events.append, wrap_store=wrap
    ) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def alerts():
    return []


@pytest.fixture
def reconciler(catalog, alerts):
    made = catalog.mirror.reconciler(QUICK)
    made.desk = AlertDesk([alerts.append])
    made.breakers = CircuitBreakers(probe_every_s=0.2)
    made.engine.retries = type(made.engine.retries)(
        5, type(made.engine.retries.backoff)(0.02, 0.1), timedelta(seconds=30)
    )
    return made


class Running:
    """A reconciler that serves inside the block."""

    def __init__(self, reconciler: MirrorReconciler) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=reconciler.run, args=(self._stop,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def behind(catalog, name: str = "orders") -> int:
    return catalog.mirror.status(name)["lag_versions"]


def faults_of(faults, table) -> list[Fault]:
    return faults.setdefault(Path(table.location.removeprefix("file://")).name, [])


DOWN = Fault(Kind.FAIL_BEFORE, "put_if_absent", times=10**9)


@pytest.mark.req("R16")
def test_a_backlog_of_many_tables_is_drained_in_order(catalog, reconciler, tmp_path, events):
    tables = [a_table(catalog, tmp_path, f"t{n}") for n in range(5)]
    for number in range(30):
        for table in tables:
            table.commit([an_add(f"f{number}")])
    assert behind(catalog, "t0") == 31
    swept = reconciler.run_once()
    assert (swept.behind, swept.mirrored, swept.failed) == (5, 31 * 5, 0)
    for table in tables:
        check_invariants(catalog, table.name)
    inspect(catalog).mirroring.checkpoints.finish()
    for table in tables:
        assert catalog.mirror.verify(table.name) == []
    assert any(isinstance(event, ReconcilePassFinished) for event in events)


@pytest.mark.req("R17")
@pytest.mark.req("R18")
def test_after_five_attempts_a_version_is_failed_and_an_alert_is_told(
    catalog, reconciler, tmp_path, faults, alerts
):
    table = a_table(catalog, tmp_path)
    table.commit([an_add("f")])
    faults_of(faults, table).append(DOWN)
    with Running(reconciler):
        until(lambda: catalog.mirror.status("orders")["status"] == "FAILED")
        until(lambda: any(alert.kind == "mirror_stuck" for alert in alerts))
        stuck = next(alert for alert in alerts if alert.kind == "mirror_stuck")
        assert "stuck at 0 with 5 retries" in stuck.text()
        assert "Recommended action:" in stuck.text()
        faults_of(faults, table).clear()
        until(lambda: behind(catalog) == 0)
    check_invariants(catalog, "orders")


@pytest.mark.req("R46")
def test_one_store_that_is_down_does_not_hold_up_the_others(catalog, reconciler, tmp_path, faults):
    bad, good = a_table(catalog, tmp_path, "bad"), a_table(catalog, tmp_path, "good")
    faults_of(faults, bad).append(DOWN)
    with Running(reconciler):
        for number in range(20):
            bad.commit([an_add(f"f{number}")])
            good.commit([an_add(f"f{number}")])
        until(lambda: behind(catalog, "good") == 0)
        assert behind(catalog, "bad") == 21
        until(lambda: reconciler.breakers.down() == [bad.location])
        faults_of(faults, bad).clear()
        started = time.monotonic()
        until(lambda: behind(catalog, "bad") == 0)
        assert time.monotonic() - started < 15
        until(lambda: reconciler.breakers.down() == [])
    for name in ("bad", "good"):
        check_invariants(catalog, name)


@pytest.mark.req("R46")
@pytest.mark.parametrize("error", [StorageUnavailableError, AccessDeniedError])
def test_what_others_put_off_is_tried_as_soon_as_the_store_may_be_back(
    catalog, reconciler, tmp_path, error
):
    table = a_table(catalog, tmp_path)
    with Running(reconciler):
        until(lambda: behind(catalog) == 0)
        now = reconciler.clock()
        an_hour = {"now": now, "next_attempt_at": now + 3_600_000}
        catalog.mirror.pause("orders")
        version = table.commit([an_add("f")])
        told = f"{error.code}: another writer met it"
        reconciler.tracker.mark_failed(table.table_id, version, told, **an_hour)
        catalog.mirror.resume("orders")
        if error.retryable:
            until(lambda: behind(catalog) == 0)
            until(lambda: reconciler.breakers.down() == [])
        else:
            time.sleep(0.5)
            assert behind(catalog) == 1
    check_invariants(catalog, "orders")


def test_a_count_that_is_reset_by_hand_makes_a_version_due(catalog, reconciler, tmp_path, faults):
    """As the guide says: UPDATE dl_mirror_status SET retry_count = 0 WHERE …"""
    table = a_table(catalog, tmp_path)
    faults_of(faults, table).append(Fault(Kind.DENIED, "put_if_absent", times=10**9))
    with Running(reconciler):
        until(lambda: catalog.mirror.status("orders")["status"] == "FAILED")
        faults_of(faults, table).clear()
        time.sleep(0.5)
        assert behind(catalog) == 1  # a refusal is tried again in a long while only
        _sql(catalog, "update dl_mirror_status set retry_count = 0")
        until(lambda: behind(catalog) == 0)
    check_invariants(catalog, "orders")


def _sql(catalog, text: str) -> None:
    database = inspect(catalog).database
    with database.write() as tx:
        tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())


@pytest.mark.req("R16")
def test_rows_of_the_queue_that_are_gone_are_made_again(catalog, reconciler, tmp_path):
    table = a_table(catalog, tmp_path)
    table.commit([an_add("f")])
    _sql(catalog, "delete from dl_mirror_status")
    swept = reconciler.run_once()
    assert swept.missing_rows == 2
    assert behind(catalog) == 0
    check_invariants(catalog, "orders")


@pytest.mark.req("R37")
def test_a_paused_table_rests_and_goes_on_without_loss(catalog, reconciler, tmp_path):
    table = a_table(catalog, tmp_path)
    catalog.mirror.pause("orders")
    table.append(rows(1))
    reconciler.run_once()
    assert behind(catalog) == 2
    catalog.mirror.resume("orders")
    table.alter(properties={"k": "v"})
    reconciler.run_once()
    assert behind(catalog) == 0
    check_invariants(catalog, "orders")


def test_one_property_that_makes_no_sense_stops_no_table(catalog, reconciler, tmp_path, events):
    """It is refused where it is set; an old one, or one set by hand, is told and passed over."""
    bad, good = a_table(catalog, tmp_path, "bad"), a_table(catalog, tmp_path, "good")
    with pytest.raises(ConfigError, match=r"mirror\.mode"):
        bad.alter(properties={"deltasql.mirror.mode": "bogus"})
    with pytest.raises(ConfigError):
        a_table(catalog, tmp_path, "worse", properties={"mirror.mode": "bogus"})
    text = '{"deltasql.mirror.mode":"bogus"}'
    _sql(catalog, f"update dl_tables set properties = '{text}' where name = 'bad'")
    assert reconciler.run_once().mirrored == 2
    troubles = [event.table for event in events if isinstance(event, ReconcilerFailed)]
    assert set(troubles) == {"bad"}
    assert good.version == 0


def test_a_worker_of_an_epoch_that_is_over_claims_no_log(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=WORKER) as old:
        old.create_if_missing()
        with deltasql.connect(catalog_uri) as new:
            new.new_epoch()
        with deltasql.connect(catalog_uri, settings=WORKER) as new:
            table = a_table(new, tmp_path)
            old.mirror.run_once()
            place = Path(table.location.removeprefix("file://"))
            assert not (place / commit_key(0)).exists()
            new.mirror.run_once()
            assert table.state == "active"
            check_invariants(new, "orders")


@pytest.mark.req("R14")
@pytest.mark.req("R15")
def test_lag_is_measured_and_told_when_it_is_long(catalog, reconciler, tmp_path, events, alerts):
    table = a_table(catalog, tmp_path)
    table.commit([an_add("f")])
    (found,) = reconciler.tracker.find_behind()
    later = {"now": found.committed_at + 61_000}
    reconciler.clock = lambda: later["now"]
    assert reconciler.emit_lag_metrics(found) == 61.0
    assert [(alert.severity, alert.kind) for alert in alerts] == [("warning", "mirror_lag")]
    later["now"] += 300_000
    reconciler.emit_lag_metrics(found)
    assert alerts[-1].severity == "critical"
    assert alerts[-1].text().startswith("CRITICAL: Mirror lag exceeds 5 minutes for table orders")
    measured = [event for event in events if isinstance(event, LagMeasured)]
    assert [event.lag_versions for event in measured] == [2, 2]
    assert reconciler.should_alert_on_lag(timedelta(seconds=61))
    assert not reconciler.should_alert_on_lag(timedelta(seconds=59))


@pytest.mark.req("R28")
def test_a_foreign_commit_is_found_within_a_cycle_and_told_with_its_key(
    catalog, reconciler, tmp_path, alerts
):
    table = a_table(catalog, tmp_path)
    reconciler.run_once()
    place = Path(table.location.removeprefix("file://"))
    (place / commit_key(1)).write_bytes(b'{"commitInfo":{"timestamp":1}}\n')
    table.commit([an_add("ours")])
    with Running(reconciler):
        until(lambda: alerts)
    assert table.state == "conflict"
    assert commit_key(1) in alerts[0].text()
    assert "mirror verify" in alerts[0].text()


def test_many_reconcilers_at_once_do_no_harm(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=WORKER) as writer:
        table = a_table(writer, tmp_path)
        stop = threading.Event()
        catalogs = [deltasql.connect(catalog_uri, settings=WORKER) for _ in range(4)]
        threads = [
            threading.Thread(target=c.mirror.reconciler(QUICK).run, args=(stop,)) for c in catalogs
        ]
        for thread in threads:
            thread.start()
        for number in range(150):
            table.commit([an_add(f"f{number}")])
        until(lambda: behind(writer) == 0)
        stop.set()
        for thread in threads:
            thread.join(30)
        for opened in catalogs:
            opened.close()
        check_invariants(writer, "orders")
        assert writer.mirror.verify("orders") == []


def test_a_database_that_goes_away_does_not_end_the_worker(durable_postgres_server, tmp_path):
    uri = durable_postgres_server.uri(durable_postgres_server.create_database_name())
    with deltasql.connect(uri, settings=WORKER) as catalog:
        table = a_table(catalog, tmp_path)
        with Running(catalog.mirror.reconciler(QUICK)):
            until(lambda: behind(catalog) == 0)
            durable_postgres_server.stop("immediate")
            time.sleep(0.5)
            durable_postgres_server.start()
            table.commit([an_add("f")])
            until(lambda: behind(catalog) == 0)
        check_invariants(catalog, "orders")


def test_the_program_serves_tells_its_health_and_stops_on_sigterm(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=WORKER) as catalog:
        table = a_table(catalog, tmp_path)
        command = [sys.executable, "-m", "deltasql", "-u", catalog_uri, "mirror", "run"]
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
        )
        try:
            address = _address(process)
            table.append(rows(1))
            until(lambda: behind(catalog) == 0)
            until(lambda: _get(address, "/readyz")[0] == 200)
            assert _get(address, "/healthz") == (200, b"ok\n")
            assert b"deltasql_mirror_latency_ms" in _get(address, "/metrics")[1]
            assert _get(address, "/nothing")[0] == 404
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.stderr.close()
            process.wait()
        check_invariants(catalog, "orders")


def _address(process) -> str:
    for line in process.stderr:
        if "http://" in line:
            return line.split("http://")[1].split("/")[0].split()[0].rstrip(".;,")
    raise AssertionError("the worker never said where it listens")


def _get(address: str, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
