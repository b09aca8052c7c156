"""Does every store of a worker's tables answer? Asked at each sweep, and more often while not.

An outage during which nobody commits, or in which every write fails before its commit, leaves no
version behind: only a question of the worker's own finds it. One small read for each store is
enough, however many tables it holds. The questions run in threads of their own, a few at once: a
store that hangs holds up neither the worker nor the questions to other stores.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf

from deltasql.errors import (
    DeltaSqlError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.events import Sink, StoreProbed, StoreUnavailable
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.worker.alerts import STORE, AlertDesk, store_alert
from deltasql.mirror.worker.limits import CircuitBreakers, store_of
from deltasql.storage.port import ObjectStore

_AT_ONCE = 4
# A store that takes longer for one small read counts as one that does not answer.
_PATIENCE_S = 10.0


def stores_of(rows: Iterable[TableRow]) -> dict[str, TableRow]:
    """Return each store with one of its tables, one with a log if there is any."""
    return {store_of(row.location): row for row in sorted(rows, key=lambda r: r.mirrored_through)}


def ask_store(row: TableRow, open_store: Callable[[TableRow], ObjectStore]) -> DeltaSqlError | None:
    """Ask a store for the owner marker of a table; None where it answers as it should."""
    try:
        open_store(row).head(OWNER_KEY)
    except ObjectNotFoundError:
        if row.mirrored_through < 0:
            return None  # nothing was mirrored yet, and so nothing is missing
        return StorageUnavailableError(
            f"The owner marker of {row.full_name} is not at {row.location}.",
            hint="Check that the disk is mounted and that the location is the right one.",
            table=row.full_name,
            missing=OWNER_KEY,
        )
    except DeltaSqlError as error:
        return error
    except Exception as error:  # noqa: BLE001 (its text may hold anything: the kind is enough)
        return StorageError(f"The store failed unexpectedly: {type(error).__name__}.")
    return None


def ask_stores(
    stores: Mapping[str, TableRow],
    open_store: Callable[[TableRow], ObjectStore],
    patience_s: float = _PATIENCE_S,
) -> dict[str, DeltaSqlError | None]:
    """Ask stores, a few at once, and return what each said; a store that hangs is an error too."""
    answers: dict[str, DeltaSqlError | None] = {
        store: _silent_error(store, patience_s) for store in stores
    }
    waiting = deque(stores.items())

    def ask_some() -> None:
        while waiting:
            with suppress(IndexError):  # another thread was faster
                store, row = waiting.popleft()
                answers[store] = ask_store(row, open_store)

    threads = [_thread(ask_some) for _ in range(min(_AT_ONCE, len(stores)))]
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    return dict(answers)


def _thread(work: Callable[[], None]) -> threading.Thread:
    """Start a thread that nobody waits for at the end: a hung store must not hold a process."""
    thread = threading.Thread(target=work, name="deltasql-probe", daemon=True)
    thread.start()
    return thread


def _has_answered(row: TableRow, error: DeltaSqlError) -> bool:
    """A folder without its marker is a disk that is not mounted; a bucket without it is there."""
    return "missing" in error.context and not row.location.startswith("file:")


def _silent_error(store: str, seconds: float) -> StorageUnavailableError:
    return StorageUnavailableError(
        f"The store {store} has not answered a small read for {seconds:.0f} s."
    )


@dataclass(slots=True)
class StoreWatch:
    """Asks stores, and reports what changed; safe to use from many threads.

    `desk` and `sink` are asked for at each report. `on_back` is called with a store that answers
    after it was thought to be down.
    """

    open_store: Callable[[TableRow], ObjectStore]
    breakers: CircuitBreakers
    desk: Callable[[], AlertDesk]
    sink: Callable[[], Sink]
    on_back: Callable[[str], None]
    monotonic: Callable[[], float] = time.monotonic
    patience_s: float = _PATIENCE_S
    _rows: dict[str, TableRow] = field(default_factory=dict)
    _asked: dict[str, float] = field(default_factory=dict)
    _reported_at: dict[str, float] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: dict[str, DeltaSqlError] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def errors(self) -> dict[str, str]:
        """Return the stores that cannot be used, each with its error."""
        with self._lock:
            return {store: f"{e.code}: {e.message}" for store, e in sorted(self._errors.items())}

    def down(self) -> list[str]:
        """Return the stores that do not answer this worker, or refuse it."""
        return sorted({*self.breakers.down(), *self.errors()})

    def ask_all(self, rows: Iterable[TableRow]) -> list[threading.Thread]:
        """Begin to ask every store of the tables; return the threads that do."""
        stores = stores_of(rows)
        with self._lock:
            gone = set(self._errors) - set(stores)
            self._rows = stores
            for store in gone:
                self._errors.pop(store)
        for store in gone:
            self.desk().clear(STORE, store)
        return self._ask(stores)

    def ask_down(self) -> list[threading.Thread]:
        """Begin to ask those stores again that were down a while ago; report those that hang."""
        self.report_silent()
        down = self.down()
        with self._lock:
            due = {store: row for store, row in self._rows.items() if store in down}
            due = {store: row for store, row in due.items() if self._is_due(store)}
        return self._ask(due)

    def report_silent(self) -> None:
        """Report the stores that have been asked and have not answered for too long."""
        now = self.monotonic()
        with self._lock:
            silent = [
                store
                for store, began in self._asked.items()
                if now - began >= self.patience_s
                and (store not in self._errors or self._is_due(store))
            ]
        for store in silent:
            self._report(store, _silent_error(store, self.patience_s), self.patience_s)

    def _is_due(self, store: str) -> bool:
        since = self.monotonic() - self._reported_at.get(store, -inf)
        return since >= self.breakers.probe_every_s

    def close(self) -> None:
        """Wait for the questions under way, as long as a store may take."""
        self.wait(self._threads)

    def wait(self, threads: list[threading.Thread]) -> None:
        """Wait for questions, as long as a store may take; report those that hang."""
        until = self.monotonic() + self.patience_s
        for thread in threads:
            thread.join(max(until - self.monotonic(), 0.0))
        self.report_silent()

    def _ask(self, stores: dict[str, TableRow]) -> list[threading.Thread]:
        with self._lock:
            waiting = deque((s, row) for s, row in stores.items() if s not in self._asked)
        threads = [
            _thread(partial(self._ask_some, waiting)) for _ in range(min(_AT_ONCE, len(waiting)))
        ]
        self._threads = [*(each for each in self._threads if each.is_alive()), *threads]
        return threads

    def _ask_some(self, waiting: deque[tuple[str, TableRow]]) -> None:
        while waiting:
            try:
                store, row = waiting.popleft()
            except IndexError:
                return
            began = self.monotonic()
            with self._lock:
                if store in self._asked:
                    continue
                self._asked[store] = began
            try:
                error = ask_store(row, self.open_store)
                if error is not None and _has_answered(row, error):
                    error = None
            finally:
                with self._lock:
                    self._asked.pop(store, None)
            self._report(store, error, self.monotonic() - began)

    def _report(self, store: str, error: DeltaSqlError | None, seconds: float) -> None:
        with self._lock:
            row = self._rows.get(store)
            if row is None:
                return
            before = self._errors.pop(store, None)
            self._reported_at[store] = self.monotonic()
            if error is not None:
                self._errors[store] = error
        was_down = error is None and self.breakers.answered(store)
        if error is not None and error.retryable:
            self.breakers.failed(store)
        self.sink()(
            StoreProbed(
                table_id="",
                table="",
                version=0,
                store=store,
                latency_ms=seconds * 1000,
                stores_down=len(self.down()),
                error_code=None if error is None else error.code,
            )
        )
        if error is None:
            self.desk().clear(STORE, store)
            if was_down or before is not None:
                self.on_back(store)
            return
        if before is None or before.code != error.code:
            self.sink()(
                StoreUnavailable(
                    table_id="",
                    table="",
                    version=0,
                    store=store,
                    error_code=error.code,
                    error_message=error.message,
                )
            )
        self.desk().tell(store_alert(store, row.full_name, error), self.monotonic())
