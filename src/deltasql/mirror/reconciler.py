"""MirrorReconciler: whatever failed or was left behind reaches the log, without a hand.

It asks SQL which tables are behind, drains each of them in order, several tables at once, and
looks over all tables now and then: rows that are missing, checkpoints that are due, lag and alerts.
Any number of reconcilers may run beside each other and beside inline mirrors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from deltasql.alerts import AlertDesk
from deltasql.catalog.mirror_status import Behind, MirrorStatusTracker
from deltasql.catalog.pause import is_paused
from deltasql.errors import ConfigError, DeltaSqlError
from deltasql.events import (
    LagMeasured,
    ReconcilerSwept,
    ReconcilerTroubled,
    Sink,
    discard,
)
from deltasql.mirror.alerting import CONFLICT, LAG, STUCK, conflict_alert, lag_alert, stuck_alert
from deltasql.mirror.background import BackgroundCheckpoints
from deltasql.mirror.backoff import Backoff
from deltasql.mirror.breaker import Breakers, store_of
from deltasql.mirror.engine import Mirrored, MirrorEngine, MirrorResult
from deltasql.protocol.files import commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.sinks import span


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


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look over all tables found and did."""

    behind: int
    mirrored: int
    failed: int
    missing_rows: int


@dataclass(slots=True)
class MirrorReconciler:
    """Repairs mirrors in the background; `run` is the service, `run_once` a single pass."""

    engine: MirrorEngine
    tracker: MirrorStatusTracker
    checkpoints: BackgroundCheckpoints
    config: ReconciliationConfig = field(default_factory=ReconciliationConfig)
    settings: Settings = field(default_factory=Settings)
    desk: AlertDesk = field(default_factory=AlertDesk)
    breakers: Breakers = field(default_factory=Breakers)
    sink: Sink = discard
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    _busy: dict[str, Future[MirrorResult | None]] = field(default_factory=dict)
    _at_once: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _lagging: set[tuple[str, str]] = field(default_factory=set)
    _queries: int = 0
    last_poll_at: float | None = None

    def calculate_backoff(self, attempt: int) -> timedelta:
        """Return the longest pause after an attempt, from 0: 1, 2, 4, 8, 16 s and so on."""
        base, limit = self.config.retry_backoff_base, self.config.retry_backoff_max
        longest = Backoff(base.total_seconds(), limit.total_seconds()).longest(attempt)
        return timedelta(seconds=longest)

    def should_alert_on_lag(self, lag: timedelta) -> bool:
        """Tell whether a lag is long enough to say so."""
        return lag > self.config.lag_warn_threshold

    def emit_lag_metrics(self, behind: Behind) -> float:
        """Measure one table's lag, tell it, alert where it is long, and return the seconds."""
        now = self.clock()
        lag_s = max(now - (behind.committed_at or now), 0) / 1000
        stuck = 1 if behind.status == "FAILED" else 0
        self.sink(
            LagMeasured(
                table_id=behind.table_id,
                table=behind.name,
                version=behind.current_version,
                lag_seconds=lag_s,
                lag_versions=behind.current_version - behind.mirrored_through,
                stuck_versions=stuck,
            )
        )
        alert = lag_alert(
            behind.name,
            lag_s,
            behind.mirrored_through + 1,
            self.config.lag_warn_threshold,
            self.config.lag_alert_threshold,
        )
        if alert is not None:
            self.desk.tell(alert, self.monotonic())
        return lag_s

    def alert_on_stuck_mirror(self, table: str, version: int, attempts: int, error: str) -> None:
        """Say that a version has used up its quick attempts."""
        self.desk.tell(stuck_alert(table, version, attempts, error), self.monotonic())

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set; then finish the batches under way."""
        next_sweep = self.monotonic()
        with ThreadPoolExecutor(
            self.config.max_concurrency, thread_name_prefix="deltasql-mirror"
        ) as pool:
            while not stop.is_set():
                try:
                    self._start_due(pool, stop)
                    if self.monotonic() >= next_sweep:
                        self._look_over()
                        next_sweep = self.monotonic() + self.config.interval.total_seconds()
                except DeltaSqlError as error:
                    self._say_trouble(error)
                stop.wait(self.config.poll.total_seconds())

    def run_once(self) -> Sweep:
        """Try every table that is behind, whenever its next attempt would be, until all is done."""
        missing = self.tracker.make_missing(now=self.clock())
        mirrored = failed = 0
        behind = self._find()
        workers = max(1, min(self.config.max_concurrency, len(behind)))
        with ThreadPoolExecutor(workers, thread_name_prefix="deltasql-mirror") as pool:
            never = threading.Event()
            for result in pool.map(lambda one: self._drain(one, never, None), behind):
                if result is not None:
                    mirrored += result.count
                    failed += result.error is not None
        self._look_over()
        return Sweep(len(behind), mirrored, failed, missing)

    def _start_due(self, pool: ThreadPoolExecutor, stop: threading.Event) -> None:
        now = self.clock()
        found = self._find()
        self.last_poll_at = self.monotonic()
        self._busy = {key: work for key, work in self._busy.items() if not work.done()}
        for behind in found:
            if behind.table_id in self._busy or len(self._busy) >= self.config.max_concurrency:
                continue
            if self._may_try(behind, now) and self.breakers.allows(store_of(behind.location)):
                self._seen.add(behind.table_id)
                self._at_once.discard(behind.table_id)
                seconds = self.config.slice.total_seconds()
                self._busy[behind.table_id] = pool.submit(self._drain, behind, stop, seconds)

    def _may_try(self, behind: Behind, now: int) -> bool:
        """A table is due by its row; when its store has just come back; or when we are new."""
        is_new = behind.table_id not in self._seen
        return is_new or behind.table_id in self._at_once or behind.is_due(now)

    def _find(self) -> list[Behind]:
        self._queries += 1
        return [one for one in self.tracker.find_behind() if not self._is_off(one)]

    def _is_off(self, behind: Behind) -> bool:
        properties = msgspec.json.decode(behind.properties)
        if is_paused(properties):
            return True
        try:
            return self.settings.for_table(properties).mirror.mode == "off"
        except ConfigError as error:
            # a property that nobody can read must not stop this table, let alone the others
            self._say_trouble(error, behind)
            return self.settings.mirror.mode == "off"

    def _drain(
        self, behind: Behind, stop: threading.Event, seconds: float | None
    ) -> MirrorResult | None:
        """Mirror a table's backlog batch by batch; give others their turn after a while."""
        with span("mirror", table=behind.name):
            return self._drain_slice(behind, stop, seconds)

    def _drain_slice(
        self, behind: Behind, stop: threading.Event, seconds: float | None
    ) -> MirrorResult | None:
        deadline = None if seconds is None else self.monotonic() + seconds
        count = 0
        try:
            while not stop.is_set():
                row = self.engine.catalog.table_by_id(behind.table_id)
                self._queries += 1
                result = self.engine.mirror_batch(row)
                count += result.count
                self._note(behind, result)
                if result.count:
                    self.checkpoints.want(behind.table_id)
                if result.outcome is not Mirrored.DONE:
                    return MirrorResult(result.outcome, result.version, result.error, count)
                if deadline is not None and self.monotonic() >= deadline:
                    break
        except DeltaSqlError as error:
            self._say_trouble(error)
            return MirrorResult(Mirrored.FAILED, behind.mirrored_through + 1, error, count)
        return None

    def _note(self, behind: Behind, result: MirrorResult) -> None:
        store = store_of(behind.location)
        error = result.error
        if error is None or not error.retryable:
            if self.breakers.answered(store):
                self._retry_at_once(store)
            if error is None:
                self.desk.clear(STUCK, behind.name)
        else:
            self.breakers.failed(store)
        if result.outcome is Mirrored.CONFLICT and error is not None:
            alert = conflict_alert(behind.name, result.version, commit_key(result.version), error)
            self.desk.tell(alert, self.monotonic())
        elif result.outcome is Mirrored.FAILED and result.attempts >= self.config.max_attempts:
            message = error.message if error is not None else "unknown"
            self.alert_on_stuck_mirror(behind.name, result.version, result.attempts, message)

    def _retry_at_once(self, store: str) -> None:
        """The store is back: everything in it is worth an attempt now."""
        for behind in self._find():
            if store_of(behind.location) == store:
                self._at_once.add(behind.table_id)

    def _look_over(self) -> None:
        started = self.monotonic()
        missing = self.tracker.make_missing(now=self.clock())
        behind = self._find()
        lagging = {(one.table_id, one.name) for one in behind}
        for one in behind:
            self.emit_lag_metrics(one)
        for table_id, name in self._lagging - lagging:
            self._caught_up(table_id, name)
        self._lagging = lagging
        for row in self.engine.catalog.tables():
            if row.mirrored_through > 0:
                self.checkpoints.want(row.table_id)
        self.sink(
            ReconcilerSwept(
                table_id="",
                table="",
                version=0,
                behind=len(behind),
                missing_rows=missing,
                queries=self._queries,
                stores_down=len(self.breakers.down()),
                latency_ms=(self.monotonic() - started) * 1000,
            )
        )

    def _caught_up(self, table_id: str, name: str) -> None:
        for kind in (LAG, f"{LAG}_critical", STUCK, CONFLICT):
            self.desk.clear(kind, name)
        self.sink(
            LagMeasured(table_id=table_id, table=name, version=0, lag_seconds=0.0, lag_versions=0)
        )

    def _say_trouble(self, error: DeltaSqlError, behind: Behind | None = None) -> None:
        """SQL itself does not answer, or a table makes no sense: tell it and go on."""
        self.sink(
            ReconcilerTroubled(
                table_id=behind.table_id if behind else "",
                table=behind.name if behind else "",
                version=behind.mirrored_through + 1 if behind else 0,
                error_code=error.code,
            )
        )
