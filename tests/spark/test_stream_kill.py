"""A stream killed at random and started again: every row exactly once."""

import os
import random
import signal
import time

import pytest

import deltasql
import spark_streamer
from builders import a_table, rows

STREAM = [pytest.param(3, marks=pytest.mark.verify), pytest.param(50, marks=pytest.mark.soak)]


class Writer:
    """Appends rows, a few at a time, also in commits of several files."""

    def __init__(self, catalog, tmp_path, chance):
        self.catalog = catalog
        self.table = a_table(catalog, tmp_path)
        self.chance = chance
        self.count = 0

    def write(self, commits):
        for _ in range(commits):
            with self.catalog.transaction() as tx:
                for _ in range(self.chance.randint(1, 3)):
                    tx.table("orders").append(rows(self.count, day=f"d{self.chance.randint(0, 3)}"))
                    self.count += 1


def kill(process, jvm):
    """End the driver and its JVM at once, as a lost machine does."""
    for pid in (process.pid, jvm):
        os.kill(pid, signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()


def run_until_killed(uri, folder, writer, chance):
    process = spark_streamer.start(uri, folder, "running")
    jvm = int(process.stdout.readline())
    seen, wanted = len(spark_streamer.batches(folder)), chance.randint(1, 6)
    deadline = time.monotonic() + 120
    while len(spark_streamer.batches(folder)) < seen + wanted:
        assert time.monotonic() < deadline, "the stream stands still"
        writer.write(1)
        time.sleep(0.2)
    time.sleep(chance.random())
    assert process.poll() is None, "the stream ended by itself"
    kill(process, jvm)


@pytest.mark.parametrize("kills", STREAM)
def test_killed_at_random(tmp_path, kills):
    chance = random.Random(kills)
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    folder = tmp_path / "sink"
    folder.mkdir()
    with deltasql.connect(uri) as catalog:
        writer = Writer(catalog, tmp_path, chance)
        writer.write(8)
        for _ in range(kills):
            run_until_killed(uri, folder, writer, chance)
            writer.write(chance.randint(0, 3))
        last = spark_streamer.start(uri, folder, "drain")
        out, _ = last.communicate(timeout=200)
        assert out.splitlines()[-1] == "done"
        found = [number for batch in spark_streamer.batches(folder).values() for number in batch]
        assert sorted(found) == list(range(writer.count))
        assert len(found) > 8
