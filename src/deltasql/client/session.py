"""What catalogs, tables and transactions share: the book, the stores, the mirror, the clock."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.commit_request import CommitRequest, Committed, TableRead
from deltasql.catalog.leases import Leases
from deltasql.catalog.log_files import LogFiles
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.verifications import Verifications
from deltasql.client.failures import failure_facts
from deltasql.client.open_work import OpenWork
from deltasql.client.own_log import OwnLogs
from deltasql.client.table_root import require_root
from deltasql.errors import CommitConflictError, StorageUnavailableError
from deltasql.events import (
    CommitConflicted,
    CommitFailed,
    DataWriteFailed,
    Sink,
    VersionCommitted,
    discard,
)
from deltasql.forks import abandon, start_afresh_after_fork
from deltasql.mirror.background import BackgroundCheckpoints
from deltasql.mirror.checkpoints import Checkpointer
from deltasql.mirror.engine import MirrorEngine, MirrorResult
from deltasql.mirror.hinter import CommitHinter
from deltasql.mirror.inline import InlineMirror
from deltasql.mirror.retries import RetryPolicy
from deltasql.settings import Settings
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import open_store

_logger = logging.getLogger(__name__)


def _new_id() -> str:
    return str(uuid.uuid4())


def worker_name(token: str) -> str:
    """Return a name that no other worker has, and by which people find the process."""
    return f"{socket.gethostname()}/{os.getpid()}/{token[:8]}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True, weakref_slot=True)
class Session:
    """One open catalog with everything around it; closed once, by the Catalog."""

    book: SqlCatalog
    settings: Settings
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    sink: Sink = discard
    committer: str | None = None
    client: str | None = None
    new_id: Callable[[], str] = _new_id
    now_ms: Callable[[], int] = _now_ms
    wrap_store: Callable[[ObjectStore], ObjectStore] | None = None
    engine: MirrorEngine = field(init=False)
    inline: InlineMirror = field(init=False)
    checkpointer: Checkpointer = field(init=False)
    checkpoints: BackgroundCheckpoints = field(init=False)
    hinter: CommitHinter = field(init=False)
    own_logs: OwnLogs = field(init=False)
    verifications: Verifications = field(init=False)
    open_work: OpenWork = field(init=False)
    _stores: dict[str, ObjectStore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        tracker = MirrorStatusTracker(self.book.database)
        self.engine = MirrorEngine(
            self.book,
            self.store_of,
            tracker,
            sink=self.sink,
            clock=self.now_ms,
            retries=RetryPolicy.of(self.settings.mirror),
        )
        name = worker_name(self.new_id())
        self.open_work = OpenWork(self.book.database, name, self.new_id, self.now_ms)
        self.checkpointer = Checkpointer(
            self.book,
            self.store_of,
            self.engine.ownership.ensure,
            Leases(
                self.book.database,
                name,
                ttl_ms=int(self.settings.mirror.lease_ttl.total_seconds() * 1000),
            ),
            LogFiles(self.book.database),
            sink=self.sink,
            clock=self.now_ms,
        )
        self.checkpoints = BackgroundCheckpoints(
            self.checkpointer,
            self.book.table_by_id,
            lambda row: self.settings_of(row).mirror.checkpoint_interval,
            lambda row: self.settings_of(row).mirror.checkpoint_codec,
            sink=self.sink,
        )
        deadline = self.settings.mirror.inline_deadline.total_seconds()
        self.own_logs = OwnLogs(self.book, self.engine, self.sink, deadline)
        self.inline = InlineMirror(self.engine, deadline, self.checkpoints.offer)
        self.verifications = Verifications(self.book.database, self.checkpointer.leases)
        self.hinter = CommitHinter(self.book.database.tell_commits)

        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Open the stores anew: their connections are the parent's."""
        for store in self._stores.values():
            abandon(store)
        self._stores = {}
        self._lock = threading.Lock()

    def store_of(self, row: TableRow) -> ObjectStore:
        """Return the store at a table's location, opened once."""
        return self.store_at(row.location)

    def store_at(self, location: str) -> ObjectStore:
        """Return the store at a location, opened once."""
        with self._lock:
            store = self._stores.get(location)
            if store is None:
                store = open_store(location, self.storage_options, stores=self.settings.stores)
                if self.wrap_store is not None:
                    store = self.wrap_store(store)
                self._stores[location] = store
            return store

    def require_root(self, row: TableRow) -> None:
        """Refuse to write to a local table whose folder is gone; see `require_root`.

        What was dropped or detached since has no folder of ours: the commit refuses that itself.
        """
        try:
            require_root(row, self.store_of(row))
        except StorageUnavailableError:
            if self.book.table_by_id(row.table_id).state is TableState.ACTIVE:
                raise

    def commit(
        self,
        requests: Sequence[CommitRequest],
        *,
        transaction_id: str | None = None,
        reads: Sequence[TableRead] = (),
    ) -> list[Committed]:
        """Commit in SQL, tell the sinks, and mirror what the settings say."""
        for request in requests:
            if request.known is not None:
                self.require_root(request.known)
                self.own_logs.require(request.known)
        started = time.monotonic()
        try:
            done = self.book.committer.commit(requests, transaction_id=transaction_id, reads=reads)
        except CommitConflictError as error:
            self._tell_conflict(requests[0], error)
            raise
        except Exception as error:
            for request in requests:
                self._report_failed_commit(request, error)
            raise
        self.after_commit(requests, done, started, transaction_id)
        return done

    def after_commit(
        self,
        requests: Sequence[CommitRequest],
        done: Sequence[Committed],
        started: float,
        transaction_id: str | None = None,
    ) -> None:
        """Tell of new versions and mirror them; nothing here can fail the commit."""
        latency = (time.monotonic() - started) * 1000
        for request, one in zip(requests, done, strict=True):
            self.sink(
                VersionCommitted(
                    table_id=one.before.table_id,
                    table=one.before.full_name,
                    version=one.version,
                    operation=request.note.operation,
                    latency_ms=latency,
                    transaction_id=transaction_id,
                )
            )
        self._mirror(done)

    def _mirror(self, done: Sequence[Committed]) -> None:
        """Mirror commits as the settings say, side by side and under one deadline for all."""
        until = self.inline.monotonic() + self.inline.deadline_s
        for one, started in [(one, self._start_mirror(one)) for one in done]:
            if started is not None:
                with _left_to_later(one):
                    self.inline.wait(started, until)

    def _start_mirror(self, done: Committed) -> Future[MirrorResult] | None:
        with _left_to_later(done):
            mode = self.mirror_mode(done.before)
            if mode == "inline":
                return self.inline.start(done)
            if mode == "worker" and self.book.database.dialect.must_tell_commits:
                self.hinter.hint(done.before.table_id)
        return None

    def mirror_mode(self, row: TableRow) -> str:
        """Return how a table is mirrored."""
        return "off" if row.mirror_paused else self.settings_of(row).mirror.mode

    def check_settings(self, properties: Mapping[str, str]) -> None:
        """Refuse table properties that are settings of ours and make no sense.

        Raises:
            ConfigError: names the property and what it may be.
        """
        ours = ("deltasql.mirror.", "mirror.")
        self.settings.for_table({k: v for k, v in properties.items() if k.startswith(ours)})

    def settings_of(self, row: TableRow) -> Settings:
        """Return the settings with the table's own properties considered."""
        return self.settings.for_table(row.properties) if row.properties else self.settings

    def close(self) -> None:
        """End mirror attempts under way, then close stores and connections."""
        self.open_work.close()
        self.inline.close()
        self.hinter.close()
        self.checkpoints.close()
        with self._lock:
            stores, self._stores = list(self._stores.values()), {}
        for store in stores:
            store.close()
        self.book.database.close()

    def _report_failed_commit(self, request: CommitRequest, error: Exception) -> None:
        known = request.known
        self.sink(
            CommitFailed(
                table_id=request.table_id,
                table=known.full_name if known is not None else request.table_id,
                version=known.current_version if known is not None else -1,
                **failure_facts(error),
            )
        )

    @contextmanager
    def writing_data(self, row: TableRow) -> Iterator[None]:
        """Report data files that cannot be written; the caller gets the error all the same."""
        try:
            yield
        except Exception as error:
            self.sink(
                DataWriteFailed(
                    table_id=row.table_id,
                    table=row.full_name,
                    version=row.current_version,
                    **failure_facts(error),
                )
            )
            raise

    def _tell_conflict(self, request: CommitRequest, error: CommitConflictError) -> None:
        version = error.context.get("version", request.read.version)
        self.sink(
            CommitConflicted(
                table_id=request.table_id,
                table=str(error.context.get("table", request.table_id)),
                version=int(str(version)),
                attempt=1,
                error_code=error.code,
            )
        )


@contextmanager
def _left_to_later(done: Committed) -> Iterator[None]:
    """Log whatever the mirror raises: the commit is made and must be reported as such."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (see above)
        _logger.warning(
            "Version %d of %s is committed; its mirror is left to a later attempt (%s).",
            done.version,
            done.before.full_name,
            getattr(error, "code", type(error).__name__),
        )
