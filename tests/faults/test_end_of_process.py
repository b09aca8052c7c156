"""The end of a process: late commits are mirrored, and a store that hangs holds nobody."""

import os
import subprocess
import sys

import pytest

from processes import PATHS

COMMON = """
import atexit, sys, threading, time
from pathlib import Path
import deltasql
import deltasql.mirror.after_commit
from builders import a_table, rows
catalog = deltasql.connect(f"deltasql://sqlite/{sys.argv[1]}/c.db", **globals().get("options", {}))
table = a_table(catalog, Path(sys.argv[1]))
place = Path(table.location.removeprefix("file://"))

def names():
    return [int(file.stem) for file in sorted((place / "_delta_log").glob("*.json"))]
"""
LATE = """
def work():
    time.sleep(0.5)
    versions = table.append(rows(1)), table.append(rows(2))
    until = time.monotonic() + 60
    while len(names()) < 3 and time.monotonic() < until:  # a slow disk may outlast the deadline
        time.sleep(0.1)
    print(*versions, names(), flush=True)
"""
THREAD = COMMON + LATE + "threading.Thread(target=work).start()"
AT_EXIT = COMMON + LATE + "atexit.register(work)"
HANGING = (
    """
import threading, time
hangs = threading.Event()

class Hanging:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def put_if_absent(self, key, data):
        if hangs.is_set() and key.endswith(".json"):
            time.sleep(1_000_000)
        self._inner.put_if_absent(key, data)

options = {"wrap_store": Hanging}
"""
    + COMMON
    + """
deltasql.mirror.after_commit._LONGEST_END_S = 0.2
hangs.set()
print(table.append(rows(1)), flush=True)
"""
)


def run(program, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("program", [THREAD, AT_EXIT], ids=["thread", "atexit"])
def test_commits_after_the_main_thread_has_ended_are_mirrored(tmp_path, program):
    assert run(program, tmp_path) == "1 2 [0, 1, 2]"


@pytest.mark.parametrize("end", ["", "catalog.close()"], ids=["open", "closed"])
def test_a_store_that_hangs_does_not_hold_the_process(tmp_path, end):
    assert run(HANGING + end, tmp_path) == "1"
