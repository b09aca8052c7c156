"""kill -9 at random moments, again and again: what was acknowledged stays, exactly once."""

import json
import os
import random
import signal
import time

import pytest

import deltasql
from builders import NO_MIRROR, a_table
from deltasql.testing.invariants import check_invariants
from processes import start

SEED = 20261115


def _kill_often(catalog_uri, tmp_path, rounds: int) -> None:
    rng = random.Random(SEED)
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
        acknowledged = {}
        for number in range(rounds):
            process = start("append_telling", catalog_uri, "orders", f"r{number}")
            process.stdout.readline()  # it is connected
            time.sleep(rng.uniform(0.0, 0.25))
            os.kill(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, err
            for line in out.splitlines():
                if line.endswith("]"):  # the last line may be torn
                    token, version = json.loads(line)
                    acknowledged[token] = version
        assert acknowledged, f"seed {SEED}: nothing was ever acknowledged"
        check_invariants(catalog, "orders", acknowledged=acknowledged)


def _told(process) -> dict[str, int]:
    out, _ = process.communicate(timeout=60)
    lines = [line for line in out.splitlines() if line.startswith("[") and line.endswith("]")]
    return dict(json.loads(line) for line in lines)


def _kill_workers_and_writers(catalog_uri, tmp_path, rounds: int) -> None:
    """A writer and a worker in each round; the one, the other or both are killed."""
    rng = random.Random(SEED)
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        acknowledged: dict[str, int] = {}
        worker = None
        for number in range(rounds):
            writer = start("append_unmirrored", catalog_uri, "orders", f"r{number}")
            if worker is None:
                worker = start("serve", catalog_uri)
                worker.stdout.readline()
            writer.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.4))
            if rng.random() < 0.6:
                os.kill(worker.pid, signal.SIGKILL)
                worker.communicate(timeout=60)
                worker = None
            os.kill(writer.pid, signal.SIGKILL)
            acknowledged |= _told(writer)
        if worker is not None:
            os.kill(worker.pid, signal.SIGKILL)
            worker.communicate(timeout=60)
        assert acknowledged, f"seed {SEED}: nothing was ever acknowledged"
        time.sleep(1.1)  # the leases of the dead run out
        _bring_to_rest(catalog_uri, acknowledged)


def _bring_to_rest(catalog_uri, acknowledged: dict[str, int]) -> None:
    with deltasql.connect(catalog_uri) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "orders", acknowledged=acknowledged)
        assert catalog.mirror.verify("orders") == [], f"seed {SEED}"


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_workers_and_writers_survive_random_kills(catalog_uri, tmp_path):
    _kill_workers_and_writers(catalog_uri, tmp_path, rounds=20)


@pytest.mark.soak
def test_workers_and_writers_survive_many_random_kills(catalog_uri, tmp_path):
    rounds = int(os.environ.get("DELTASQL_SOAK_ROUNDS", "300"))
    _kill_workers_and_writers(catalog_uri, tmp_path, rounds)


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_a_worker_that_sleeps_past_its_lease_does_no_harm(catalog_uri, tmp_path):
    """Four workers at once; one is stopped for longer than its leases last, then goes on."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        workers = [start("serve", catalog_uri) for _ in range(4)]
        writer = start("append_unmirrored", catalog_uri, "orders", "w")
        try:
            for process in (*workers, writer):
                process.stdout.readline()
            for worker in workers:
                os.kill(worker.pid, signal.SIGSTOP)
                time.sleep(1.5)
                os.kill(worker.pid, signal.SIGCONT)
        finally:
            for process in (writer, *workers):
                os.kill(process.pid, signal.SIGKILL)
        acknowledged = _told(writer)
        for worker in workers:
            _, err = worker.communicate(timeout=60)
            assert "Traceback" not in err
        assert acknowledged
        time.sleep(1.1)
        _bring_to_rest(catalog_uri, acknowledged)


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_acknowledged_commits_survive_random_kills(catalog_uri, tmp_path):
    _kill_often(catalog_uri, tmp_path, rounds=20)


@pytest.mark.soak
def test_acknowledged_commits_survive_many_random_kills(catalog_uri, tmp_path):
    _kill_often(catalog_uri, tmp_path, rounds=int(os.environ.get("DELTASQL_SOAK_ROUNDS", "300")))
