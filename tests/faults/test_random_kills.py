"""kill -9 at random moments, again and again: what was acknowledged stays, exactly once."""

import json
import os
import random
import signal
import time

import pytest

import deltasql
from builders import a_table
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


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_acknowledged_commits_survive_random_kills(catalog_uri, tmp_path):
    _kill_often(catalog_uri, tmp_path, rounds=12)


@pytest.mark.soak
def test_acknowledged_commits_survive_many_random_kills(catalog_uri, tmp_path):
    _kill_often(catalog_uri, tmp_path, rounds=int(os.environ.get("DELTASQL_SOAK_ROUNDS", "300")))
