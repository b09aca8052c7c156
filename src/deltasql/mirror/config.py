"""How a reconciler works, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from deltasql.settings import MirrorSettings


@dataclass(frozen=True, slots=True)
class ReconciliationConfig:
    """How a reconciler works; the defaults are those of the settings."""

    interval: timedelta = timedelta(seconds=30)
    max_attempts: int = 5
    retry_backoff_base: timedelta = timedelta(seconds=1)
    retry_backoff_max: timedelta = timedelta(seconds=60)
    lag_warn_threshold: timedelta = timedelta(seconds=60)
    lag_alert_threshold: timedelta = timedelta(seconds=300)
    max_concurrency: int = 10
    poll: timedelta = timedelta(seconds=1)
    slice: timedelta = timedelta(seconds=5)

    @classmethod
    def of(cls, settings: MirrorSettings) -> ReconciliationConfig:
        """Return what the settings ask for."""
        return cls(
            settings.reconcile_interval,
            settings.max_retry_attempts,
            settings.retry_backoff_base,
            settings.retry_backoff_max,
            settings.lag_warn_threshold,
            settings.lag_alert_threshold,
            settings.max_concurrency,
        )
