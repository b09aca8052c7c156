"""The database crashes while writers commit and a worker mirrors: what was told stays, once."""

import json
import os
import signal
import time

import pytest

import deltasql
from builders import NO_MIRROR, a_table
from deltasql.testing.invariants import check_invariants
from processes import start

CRASHES = 3
MOVES = 20  # commits between two crashes


def _wait_for_commits(catalog, above: int) -> int:
    deadline = time.monotonic() + 120
    while (version := catalog.table("orders").version) < above:
        assert time.monotonic() < deadline, f"nobody commits any more above {version}"
        time.sleep(0.05)
    return version


def _told(process) -> dict[str, int]:
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    lines = [line for line in out.splitlines() if line.startswith("[") and line.endswith("]")]
    return dict(json.loads(line) for line in lines)


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_crashes_of_the_database_lose_and_double_nothing(durable_postgres_server, tmp_path):
    server = durable_postgres_server
    uri = server.uri(server.create_database_name())
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
        writers = [start("append_through", uri, "orders", f"w{number}") for number in range(2)]
        worker = start("serve", uri)
        try:
            for process in (*writers, worker):
                process.stdout.readline()
            version = _wait_for_commits(catalog, MOVES)
            for _ in range(CRASHES):
                server.stop("immediate")
                server.start()
                version = _wait_for_commits(catalog, version + MOVES)
            assert worker.poll() is None, "the worker did not survive"
        finally:
            for process in (*writers, worker):
                os.kill(process.pid, signal.SIGKILL)
        acknowledged = {}
        for writer in writers:
            acknowledged |= _told(writer)
        _told(worker)
        assert len(acknowledged) >= CRASHES * MOVES
        time.sleep(1.1)  # the leases of the dead run out
    with deltasql.connect(uri) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "orders", acknowledged=acknowledged)
        assert catalog.mirror.verify("orders") == []
        # each token is one commit, however often it was sent
        tokens = [entry.commit_id for entry in catalog.table("orders").history()]
        assert len(tokens) == len(set(tokens))
