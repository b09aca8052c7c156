"""How long the disk takes to make a kilobyte durable: tells a quiet disk from a busy one."""

import os
import statistics
import tempfile
import time
from pathlib import Path

_TIMES = 200


def sync_ms(folder: Path) -> float:
    """Return the median time of an append of 1 KB and fdatasync, in milliseconds."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_TIMES):
            started = time.perf_counter()
            os.write(file.fileno(), b"x" * 1024)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3
