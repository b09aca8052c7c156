"""The worker: it keeps the logs of all tables up with SQL until it is stopped.

It asks SQL which tables are behind, drains each of them in order, several tables at once, and
looks over all tables now and then: rows that are missing, checkpoints that are due, lag and alerts.
Any number of reconcilers may run beside each other and beside inline mirrors.

It looks for work at a sign of a commit (see `wakes`), and every second for what no sign tells.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from deltasql.clock import now_ms
from deltasql.errors import CatalogUnavailableError, ConfigError, DeltaSqlError, is_retryable_code
from deltasql.events import ReconcilerFailed, Sink, discard
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.checkpoints.background import BackgroundCheckpoints
from deltasql.mirror.engine import BATCH_VERSIONS, Backoff, Mirrored, MirrorEngine, MirrorResult
from deltasql.mirror.queue import LaggingTable, MirrorStatusTracker
from deltasql.mirror.worker.alerts import (
    DATABASE,
    FAILURE,
    STUCK,
    AlertDesk,
    Sweep,
    conflict_alert,
    database_alert,
    failure_alert,
    lag_alert,
    lag_of,
    stuck_alert,
    swept,
    tell_caught_up,
)
from deltasql.mirror.worker.limits import (
    SPARE,
    CircuitBreakers,
    InFlightTables,
    RateLimiter,
    WorkSignal,
    store_of,
)
from deltasql.mirror.worker.periodic_verify import PeriodicVerify
from deltasql.mirror.worker.store_watch import StoreWatch
from deltasql.protocol.log_names import commit_key
from deltasql.settings import MirrorSettings, Settings
from deltasql.sinks import span

# Longer than writers rest between two hints: in a stream of commits none of them is waited for.
_HOT_S = 2.0
_HOT_POLL_S = 0.1
_logger = logging.getLogger("deltasql.mirror")


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


@dataclass(slots=True)
class MirrorReconciler:
    """Repairs mirrors in the background; `run` is the service, `run_once` a single pass."""

    engine: MirrorEngine
    tracker: MirrorStatusTracker
    checkpoints: BackgroundCheckpoints
    config: ReconciliationConfig = field(default_factory=ReconciliationConfig)
    settings: Settings = field(default_factory=Settings)
    desk: AlertDesk = field(default_factory=AlertDesk)
    breakers: CircuitBreakers = field(default_factory=CircuitBreakers)
    puts: RateLimiter = field(default_factory=RateLimiter)
    wakes: WorkSignal = field(default_factory=WorkSignal)
    verify: PeriodicVerify | None = None
    sink: Sink = discard
    clock: Callable[[], int] = now_ms
    monotonic: Callable[[], float] = time.monotonic
    _slots: InFlightTables = field(init=False)
    _retry_now: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _lagging: set[tuple[str, str]] = field(default_factory=set)
    _skipped: bool = False
    _fast_poll_until: float = float("-inf")
    _queries: int = 0
    _database_error: str | None = None
    _reported: dict[str, str] = field(default_factory=dict)
    _progress: dict[str, int] = field(default_factory=dict)
    stores: StoreWatch = field(init=False)
    last_poll_at: float | None = None

    def __post_init__(self) -> None:
        self._slots = InFlightTables(self.config.max_concurrency, self.monotonic)
        self.stores = StoreWatch(
            self.engine.connection.store_of,
            self.breakers,
            lambda: self.desk,
            lambda: self.sink,
            self._store_is_back,
            self.monotonic,
        )

    def stores_down(self) -> list[str]:
        """Return the stores that do not answer this worker, or refuse it."""
        return self.stores.down()

    def calculate_backoff(self, attempt: int) -> timedelta:
        """Return the longest pause after an attempt, from 0: 1, 2, 4, 8, 16 s and so on."""
        base, limit = self.config.retry_backoff_base, self.config.retry_backoff_max
        longest = Backoff(base.total_seconds(), limit.total_seconds()).longest(attempt)
        return timedelta(seconds=longest)

    def should_alert_on_lag(self, lag: timedelta) -> bool:
        """Tell whether a lag is long enough to say so."""
        return lag > self.config.lag_warn_threshold

    def emit_lag_metrics(self, behind: LaggingTable) -> float:
        """Measure one table's lag, tell it, alert where it is long, and return the seconds."""
        measured = lag_of(behind, self.clock())
        lag_s = measured.lag_seconds
        self.sink(measured)
        if behind.state == TableState.CONFLICT:
            return lag_s  # it has an alert of its own, and no worker can shorten this
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
        workers = self.config.max_concurrency * SPARE
        with (
            ThreadPoolExecutor(workers, thread_name_prefix="deltasql-mirror") as pool,
            self.verify.beside(stop) if self.verify is not None else nullcontext(),
        ):
            while not stop.is_set():
                started = self.monotonic()
                took = 0.0
                try:
                    self.wakes.listen()
                    self._start_due(pool, stop)
                    took = self.monotonic() - started
                    if self.monotonic() >= next_sweep:
                        self._full_pass()
                        next_sweep = self.monotonic() + self.config.interval.total_seconds()
                    self._database_answered()
                except DeltaSqlError as error:
                    self._database_failed(error)
                self.wakes.wait(self._poll_s(), stop, look_s=took)
        self.wakes.close()
        self.stores.close()
        self.desk.flush()

    def _poll_s(self) -> float:
        """Where there was work there is more soon: look again, without a sign."""
        poll = self.config.poll.total_seconds()
        return min(poll, _HOT_POLL_S) if self.monotonic() < self._fast_poll_until else poll

    def run_once(self) -> Sweep:
        """Try every table that is behind, whenever its next attempt would be, until all is done."""
        missing = self.tracker.make_missing(now=self.clock())
        mirrored = failed = 0
        found = self._find()
        self._tell_conflicts(found)
        behind = [one for one in found if one.state != TableState.CONFLICT]
        workers = max(1, min(self.config.max_concurrency, len(behind)))
        with ThreadPoolExecutor(workers, thread_name_prefix="deltasql-mirror") as pool:
            never = threading.Event()
            for result in pool.map(lambda one: self._drain(one, never, None), behind):
                if result is not None:
                    mirrored += result.count
                    failed += result.error is not None
        self.stores.wait(self._full_pass())
        self.desk.flush()
        return Sweep(len(behind), mirrored, failed, missing)

    def _start_due(self, pool: ThreadPoolExecutor, stop: threading.Event) -> None:
        now = self.clock()
        found = self._find()
        self.last_poll_at = self.monotonic()
        self._skipped = False
        self.wakes.freed.clear()
        self._slots.sweep()
        self._tell_conflicts(found)
        self._notice_others(found)
        self.stores.ask_down()
        for behind in found:
            if behind.state == TableState.CONFLICT:
                continue
            store = store_of(behind.location)
            if self._slots.has(behind.table_id) or not self._slots.allows(store):
                self._skipped = True
                continue
            if self._may_try(behind, now) and self.breakers.allows(store):
                self._seen.add(behind.table_id)
                self._retry_now.discard(behind.table_id)
                seconds = self.config.slice.total_seconds()
                work = pool.submit(self._drain, behind, stop, seconds)
                self._slots.take(behind.table_id, store, work)
                work.add_done_callback(self._free)
                self._fast_poll_until = self.monotonic() + _HOT_S
        if self._skipped and self._slots.has_ended:
            self.wakes.freed.set()  # it ended before anybody waited for it

    def _free(self, work: Future[MirrorResult | None]) -> None:
        """Somebody has ended: what was passed over meanwhile need not wait for the poll.

        So too a table that got a new version after its worker had looked for the last time.
        """
        is_unfinished = work.exception() is None and work.result() is None
        if self._skipped or is_unfinished:
            self.wakes.freed.set()

    def _may_try(self, behind: LaggingTable, now: int) -> bool:
        """A table is due by its row; when its store has just come back; or when we are new.

        Or as a probe: writers and other workers put off what they could not mirror by so much
        that a store may have come back long before.
        """
        is_new = behind.table_id not in self._seen
        if is_new or behind.table_id in self._retry_now or behind.is_due(now):
            return True
        since_ms = now - (behind.last_attempt_at or 0)
        if since_ms < self.breakers.probe_every_s * 1000 or not is_retryable_code(
            behind.error_message
        ):
            return False
        self.breakers.suspect(store_of(behind.location))
        return True

    def _tell_conflicts(self, found: list[LaggingTable]) -> None:
        """Whoever met a conflict, a writer or another worker: this worker says so."""
        for behind in found:
            if behind.state == TableState.CONFLICT:
                self._tell_conflict(behind, behind.mirrored_through + 1, behind.error_message)

    def _tell_conflict(self, behind: LaggingTable, version: int, error: str | None) -> None:
        alert = conflict_alert(behind.name, version, commit_key(version), error or "unknown")
        self.desk.tell(alert, self.monotonic())

    def _find(self) -> list[LaggingTable]:
        """Return the tables whose log lacks versions, those in conflict too."""
        self._queries += 1
        return [one for one in self.tracker.find_behind() if not self._is_off(one)]

    def _is_off(self, behind: LaggingTable) -> bool:
        if behind.mirror_paused:
            return True
        properties = msgspec.json.decode(behind.properties)
        try:
            return self.settings.for_table(properties).mirror.mode == "off"
        except ConfigError as error:
            # a property that nobody can read must not stop this table, let alone the others
            self._report_once(error, behind)
            return self.settings.mirror.mode == "off"

    def _drain(
        self, behind: LaggingTable, stop: threading.Event, seconds: float | None
    ) -> MirrorResult | None:
        """Mirror a table's backlog batch by batch; give others their turn after a while."""
        with span("mirror", table=behind.name):
            return self._drain_slice(behind, stop, seconds)

    def _drain_slice(
        self, behind: LaggingTable, stop: threading.Event, seconds: float | None
    ) -> MirrorResult | None:
        deadline = None if seconds is None else self.monotonic() + seconds
        count = 0
        try:
            while not stop.is_set():
                result = self._mirror_some(behind.table_id, stop)
                if result is None:
                    break
                count += result.count
                self._note(behind, result)
                if result.count:
                    self.checkpoints.want(behind.table_id)
                if result.outcome is not Mirrored.DONE:
                    return MirrorResult(result.outcome, result.version, result.error, count)
                if deadline is not None and self.monotonic() >= deadline:
                    break
        except CatalogUnavailableError as error:
            self._report_once(error, behind)
            return MirrorResult(Mirrored.FAILED, behind.mirrored_through + 1, error, count)
        except Exception as error:  # noqa: BLE001 (reported, never lost)
            return self._unexpected(behind, error, count)
        return None

    def _unexpected(self, behind: LaggingTable, error: Exception, count: int) -> MirrorResult:
        """Log, record and alert what no attempt should raise; the table waits as after a failure.

        The text of a foreign error may hold anything: only the log has it, with the traceback.
        """
        _logger.error("The mirror of %s failed.", behind.name, exc_info=error)
        known = error if isinstance(error, DeltaSqlError) else _unexpected_error(behind, error)
        version = behind.mirrored_through + count + 1
        self._report_error(known, behind)
        message = f"{known.code}: {known.message}"
        self.desk.tell(failure_alert(behind.name, version, message), self.monotonic())
        try:
            row = self.engine.connection.metastore.table_by_id(behind.table_id)
            self.engine.record_failure(row, row.mirrored_through + 1, known)
        except DeltaSqlError as trouble:
            self._report_error(trouble, behind)
        return MirrorResult(Mirrored.FAILED, version, known, count)

    def _mirror_some(self, table_id: str, stop: threading.Event) -> MirrorResult | None:
        """Mirror the next versions of a table, as many as the limit lets through; None at the end.

        The limit is waited for before the batch, so that nothing is put and not yet recorded.
        """
        row = self.engine.connection.metastore.table_by_id(table_id)
        self._queries += 1
        wanted = min(max(row.current_version - row.mirrored_through, 1), BATCH_VERSIONS)
        granted = self.puts.take(wanted, stop.wait)
        if not granted:
            return None
        result = self.engine.mirror_batch(row, granted)
        self.puts.give_back(granted - result.count - (result.error is not None))
        return result

    def _note(self, behind: LaggingTable, result: MirrorResult) -> None:
        store = store_of(behind.location)
        error = result.error
        if error is None or not error.retryable:
            if self.breakers.answered(store):
                self._retry_at_once(store)
            if error is None:
                self.desk.clear(STUCK, behind.name)
                self.desk.clear(FAILURE, behind.name)
                self._reported.pop(behind.table_id, None)
        else:
            self.breakers.failed(store)
        if result.outcome is Mirrored.CONFLICT and error is not None:
            self._tell_conflict(behind, result.version, f"{error.code}: {error.message}")
        elif result.outcome is Mirrored.FAILED and result.attempts >= self.config.max_attempts:
            message = f"{error.code}: {error.message}" if error is not None else "unknown"
            self.alert_on_stuck_mirror(behind.name, result.version, result.attempts, message)

    def _notice_others(self, found: list[LaggingTable]) -> None:
        """A log that moved while its store was thought to be down: the store answers somebody."""
        down = set(self.breakers.down())
        before, self._progress = self._progress, {}
        for behind in found:
            store = store_of(behind.location)
            if store not in down:
                continue
            self._progress[behind.table_id] = behind.mirrored_through
            has_moved = behind.mirrored_through > before.get(behind.table_id, 2**63)
            if has_moved and self.breakers.answered(store):
                self._retry_at_once(store)

    def _store_is_back(self, store: str) -> None:
        """Try at once what waits for a store that answers again; called by its question."""
        try:
            self._retry_at_once(store)
        except DeltaSqlError:
            return  # SQL does not answer: the poll reports that
        self.wakes.freed.set()

    def _retry_at_once(self, store: str) -> None:
        """The store is back: everything in it is worth an attempt now."""
        for behind in self._find():
            if store_of(behind.location) == store:
                self._retry_now.add(behind.table_id)

    def _full_pass(self) -> list[threading.Thread]:
        """Look at all tables; return the threads that ask their stores."""
        started = self.monotonic()
        missing = self.tracker.make_missing(now=self.clock())
        behind = self._find()
        lagging = {(one.table_id, one.name) for one in behind}
        for one in behind:
            self.emit_lag_metrics(one)
        for table_id, name in self._lagging - lagging:
            tell_caught_up(table_id, name, self.desk, self.sink)
        self._lagging = lagging
        tables = self.engine.connection.metastore.tables()
        self._queries += 2
        for row in tables:
            if row.mirrored_through > 0:
                self.checkpoints.want(row.table_id)
        self.sink(
            swept(
                Sweep(len(behind), 0, 0, missing),
                tables,
                queries=self._queries + (self.verify.queries if self.verify else 0),
                stores_down=len(self.stores_down()),
                latency_ms=(self.monotonic() - started) * 1000,
            )
        )
        return self.stores.ask_all([row for row in tables if self._is_mirrored(row)])

    def _is_mirrored(self, row: TableRow) -> bool:
        if row.state not in {TableState.ACTIVE, TableState.CONFLICT} or row.mirror_paused:
            return False
        try:
            return self.settings.for_table(row.properties).mirror.mode != "off"
        except ConfigError:
            return self.settings.mirror.mode != "off"

    def _database_failed(self, error: DeltaSqlError) -> None:
        """Report once that SQL does not answer, until it does or the reason is another."""
        if error.code != self._database_error:
            self._report_error(error)
        self._database_error = error.code
        self.desk.tell(database_alert(error), self.monotonic())

    def _database_answered(self) -> None:
        if self._database_error is not None:
            _logger.warning("The catalog's database answers again.")
            self.desk.clear(DATABASE, "")
        self._database_error = None

    def _report_once(self, error: DeltaSqlError, behind: LaggingTable) -> None:
        """Report what is wrong with a table when it begins or changes, not at every poll."""
        if self._reported.get(behind.table_id) != error.code:
            self._report_error(error, behind)
        self._reported[behind.table_id] = error.code

    def _report_error(self, error: DeltaSqlError, behind: LaggingTable | None = None) -> None:
        """SQL itself does not answer, or a table makes no sense: tell it and go on."""
        self.sink(
            ReconcilerFailed(
                table_id=behind.table_id if behind else "",
                table=behind.name if behind else "",
                version=behind.mirrored_through + 1 if behind else 0,
                error_code=error.code,
                error_message=error.message,
            )
        )


def _unexpected_error(behind: LaggingTable, error: Exception) -> DeltaSqlError:
    name = type(error).__name__
    return DeltaSqlError(
        f"The mirror of {behind.name} met an unexpected {name}.", table=behind.name
    )
