"""Many processes treat one SQLite catalog as users do: every acknowledged commit is there once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from builders import NO_MIRROR, a_table
from deltasql.testing.invariants import check_invariants
from processes import PATHS

PROGRAM = Path(__file__).parent / "catalog_stress.py"
WORKERS = 3
ROUNDS_OF_A_WORKER = 40


def _start(file: Path, ledger: Path, seed: int) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAM), str(file), str(ledger), str(seed)]
    env = {**os.environ, "PYTHONPATH": PATHS}
    return subprocess.Popen(
        [*command, str(ROUNDS_OF_A_WORKER)], env=env, stderr=subprocess.PIPE, text=True
    )


def _stress(tmp_path: Path, seed: int, rounds: int) -> None:
    file, ledger = tmp_path / "catalog.db", tmp_path / "ledger"
    with deltasql.connect(f"deltasql://sqlite/{file}", settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
    ledger.touch()
    running: list[subprocess.Popen] = []
    while ledger.read_text().count('"round"') < rounds:
        while len(running) < WORKERS:
            seed += 1
            running.append(_start(file, ledger, seed))
        running.append(running.pop(0))
        worker = running[-1]
        try:
            _, errors = worker.communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        assert worker.returncode in (0, -signal.SIGKILL), f"seed {seed}: {errors}"
        running.remove(worker)
    for worker in running:
        _, errors = worker.communicate(timeout=240)
        assert worker.returncode in (0, -signal.SIGKILL), f"seed {seed}: {errors}"
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    failed = [line for line in lines if isinstance(line, dict)]
    assert not failed, f"seed {seed}: {failed[:3]}"
    told = [line for line in lines if isinstance(line, list)]
    acknowledged = dict(told)
    assert len(acknowledged) == len(told) > rounds // 4
    assert len(set(acknowledged.values())) == len(told), "a version was acknowledged twice"
    with deltasql.connect(f"deltasql://sqlite/{file}", settings=NO_MIRROR) as catalog:
        check_invariants(catalog, "orders", acknowledged=acknowledged)


@pytest.mark.req("R2")
@pytest.mark.verify
def test_a_catalog_that_is_peeked_at_forked_and_killed_keeps_every_commit(tmp_path):
    _stress(tmp_path, seed=1_000, rounds=200)


@pytest.mark.req("R2")
@pytest.mark.soak
def test_ten_thousand_rounds_of_peeks_forks_and_kills_lose_no_commit(tmp_path):
    _stress(tmp_path, seed=100_000, rounds=10_000)
