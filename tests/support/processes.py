"""Run functions of tests/faults/workers.py in processes of their own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
WORKERS = TESTS / "faults" / "workers.py"
# The code under test may be found by PYTHONPATH.
PATHS = os.pathsep.join(filter(None, [str(SUPPORT), str(TESTS), os.environ.get("PYTHONPATH")]))


def start(
    function: str, *args: str, env: dict[str, str] | None = None, stdin: int | None = None
) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(WORKERS), function, *args],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS, **(env or {})},
    )


def start_into(output, function: str, *args: str) -> subprocess.Popen:
    """Start a function whose output goes to a file: a pipe that nobody reads would fill up."""
    return subprocess.Popen(
        [sys.executable, str(WORKERS), function, *args],
        stdout=output,
        stderr=output,
        env={**os.environ, "PYTHONPATH": PATHS},
    )


def finish(process: subprocess.Popen, timeout: float = 240.0):
    """Return what the process printed as JSON; fail with its errors if it did not end well."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def until(holds, seconds: float = 60.0) -> None:
    """Wait until something holds; fail if it does not in so long."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Tell whether a process lives; one that nobody has waited for does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
