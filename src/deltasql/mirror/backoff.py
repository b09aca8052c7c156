"""How long to wait before the next attempt: doubling, capped, with full jitter."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses of 1, 2, 4, 8, 16 s and so on up to a limit, in seconds."""

    base_s: float = 1.0
    limit_s: float = 60.0
    roll: Callable[[], float] = random.random

    def longest(self, attempt: int) -> float:
        """Return the pause after attempt number `attempt` (from 0), before chance has its say."""
        return float(min(self.base_s * 2.0 ** min(attempt, 60), self.limit_s))

    def pause(self, attempt: int) -> float:
        """Return a pause between half of the longest and the longest: many workers spread out."""
        whole = self.longest(attempt)
        return whole / 2 + self.roll() * whole / 2
