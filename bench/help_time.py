"""Case 5: how long `--help` takes, from start to end of the process."""

import subprocess
import sys
import time
from pathlib import Path

from bench.results import Bar, Case, Measured, Plan, Row

_ROUNDS = 7


def help_time(plan: Plan) -> Case:
    """Measure deltasql and pyiceberg in turn."""
    times: dict[str, list[Measured]] = {"deltasql": [], "pyiceberg": []}
    for number in range(_ROUNDS + 1):  # the first one warms the page cache
        for name, found in times.items():
            program = Path(sys.executable).parent / name
            started = time.perf_counter()
            process = subprocess.Popen([program, "--help"], stdout=subprocess.DEVNULL)
            rss = _wait(process)
            if number:
                found.append(Measured(time.perf_counter() - started, rss))
    rows = [Row.of(f"{name} --help", found, {}) for name, found in times.items()]
    ratio = rows[0].value / rows[1].value if rows[0].value and rows[1].value else None
    bars = [Bar.most("deltasql --help against pyiceberg --help", ratio, 0.5)]
    how = f"Wall time of the whole process, median of {_ROUNDS} interleaved rounds."
    plan.say(f"--help: {rows[0].value:.3f} s, pyiceberg {rows[1].value:.3f} s")
    return Case("help", "Time of --help", "s", rows, bars, how)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process and return its peak memory in MB."""
    import os

    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return round(usage.ru_maxrss / 1024)
