"""When a version that failed is tried again, and when it counts as stuck."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from deltasql.errors import DeltaSqlError
from deltasql.mirror.backoff import Backoff
from deltasql.settings import MirrorSettings


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a version after an attempt that failed."""

    is_final: bool
    next_attempt_at: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Some attempts with growing pauses; then FAILED, and an attempt now and then, for ever."""

    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    slow_interval: timedelta = timedelta(hours=1)

    @classmethod
    def of(cls, settings: MirrorSettings) -> RetryPolicy:
        """Return the policy that the settings ask for."""
        base, limit = settings.retry_backoff_base, settings.retry_backoff_max
        return cls(
            settings.max_retry_attempts,
            Backoff(base.total_seconds(), limit.total_seconds()),
            settings.slow_retry_interval,
        )

    def judge(self, error: DeltaSqlError, attempts: int, now: int) -> Verdict:
        """Return what follows from an error; `attempts` counts this one, `now` is in ms.

        A store that does not answer is asked again soon however often it failed; one that refuses
        will go on refusing until somebody does something about it.
        """
        is_final = attempts >= self.max_attempts
        if not is_final:
            pause = self.backoff.pause(attempts - 1)
        elif error.retryable:
            pause = self.backoff.limit_s
        else:
            pause = self.slow_interval.total_seconds()
        return Verdict(is_final, now + int(pause * 1000))
