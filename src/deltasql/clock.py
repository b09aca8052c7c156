"""The clock: the time of day for what is written down, a monotonic time for waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def now_ms() -> int:
    """Return the time of day in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as a value, so that tests can turn it."""

    now_ms: Callable[[], int] = now_ms
    monotonic: Callable[[], float] = time.monotonic
