"""How many processor cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return the number of cores that are not forbidden to this process; at least one."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows do not say what a process may use
        return os.cpu_count() or 1
