"""Session: an open catalog with what its users' writes need around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from deltasql.catalog.commit_request import (
    CommitRequest,
    Committed,
    TableRead,
    TransactionRequest,
)
from deltasql.catalog.rows import TableRow, TableState
from deltasql.client.failures import failure_facts
from deltasql.client.mirroring import Mirroring
from deltasql.client.open_work import OpenWork
from deltasql.client.own_log import OwnLogs
from deltasql.client.table_root import require_root
from deltasql.errors import CommitConflictError, StorageUnavailableError
from deltasql.events import CommitConflicted, CommitFailed, DataWriteFailed, VersionCommitted
from deltasql.forks import start_afresh_after_fork
from deltasql.runtime.connection import Connection


@dataclass(slots=True, weakref_slot=True)
class Session:
    """One open catalog; closed once, by the Catalog. Reading builds no mirror."""

    connection: Connection
    in_flight: OpenWork = field(init=False)
    own_logs: OwnLogs = field(init=False)
    _mirroring: Mirroring | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        connection = self.connection
        self.in_flight = OpenWork(
            connection.metastore.database, connection.worker, connection.new_id, connection.now_ms
        )
        self.own_logs = OwnLogs(connection)
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Take a lock of its own: in a child nobody would release the parent's."""
        self._lock = threading.Lock()

    @property
    def mirroring(self) -> Mirroring:
        """The mirror, built when it is first needed.

        Whoever commits asks for it before: nothing behind a commit may fail.
        """
        with self._lock:
            if self._mirroring is None:
                self._mirroring = Mirroring(self.connection)
            return self._mirroring

    def require_root(self, row: TableRow) -> None:
        """Refuse to write to a local table whose folder is gone; see `require_root`.

        What was dropped or detached since has no folder of ours: the commit refuses that itself.
        """
        try:
            require_root(row, self.connection.store_of(row))
        except StorageUnavailableError:
            if self.connection.metastore.table_by_id(row.table_id).state is TableState.ACTIVE:
                raise

    def commit(
        self,
        requests: Sequence[CommitRequest],
        *,
        transaction_id: str | None = None,
        reads: Sequence[TableRead] = (),
    ) -> list[Committed]:
        """Commit in SQL, report it, and mirror what the settings say."""
        mirroring = self.mirroring
        for request in requests:
            if request.known is not None:
                self.require_root(request.known)
                self.own_logs.require(request.known)
        started = time.monotonic()
        try:
            done = self.connection.metastore.committer.commit(
                TransactionRequest(requests, reads, transaction_id)
            )
        except CommitConflictError as error:
            self._report_conflict(requests[0], error)
            raise
        except Exception as error:
            for request in requests:
                self._report_failed_commit(request, error)
            raise
        self.after_commit(requests, done, started, mirroring, transaction_id)
        return done

    def after_commit(
        self,
        requests: Sequence[CommitRequest],
        done: Sequence[Committed],
        started: float,
        mirroring: Mirroring,
        transaction_id: str | None = None,
    ) -> None:
        """Report new versions and mirror them; nothing here can fail the commit."""
        latency = (time.monotonic() - started) * 1000
        for request, one in zip(requests, done, strict=True):
            self.connection.emit(
                VersionCommitted(
                    table_id=one.before.table_id,
                    table=one.before.full_name,
                    version=one.version,
                    operation=request.note.operation,
                    latency_ms=latency,
                    transaction_id=transaction_id,
                )
            )
        mirroring.follow(done)

    def close(self) -> None:
        """End mirror attempts under way, then close stores and connections."""
        self.in_flight.close()
        with self._lock:
            mirroring = self._mirroring
        if mirroring is not None:
            mirroring.close()
        self.connection.close()

    @contextmanager
    def writing_data(self, row: TableRow) -> Iterator[None]:
        """Report data files that cannot be written; the caller gets the error all the same."""
        try:
            yield
        except Exception as error:
            self.connection.emit(
                DataWriteFailed(
                    table_id=row.table_id,
                    table=row.full_name,
                    version=row.current_version,
                    **failure_facts(error),
                )
            )
            raise

    def _report_failed_commit(self, request: CommitRequest, error: Exception) -> None:
        known = request.known
        self.connection.emit(
            CommitFailed(
                table_id=request.table_id,
                table=known.full_name if known is not None else request.table_id,
                version=known.current_version if known is not None else -1,
                **failure_facts(error),
            )
        )

    def _report_conflict(self, request: CommitRequest, error: CommitConflictError) -> None:
        version = error.context.get("version", request.read.version)
        self.connection.emit(
            CommitConflicted(
                table_id=request.table_id,
                table=str(error.context.get("table", request.table_id)),
                version=int(str(version)),
                attempt=1,
                error_code=error.code,
            )
        )
