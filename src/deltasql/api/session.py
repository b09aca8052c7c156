"""Session: an open catalog with what its users' writes need around it.

Is the log still this catalog's, and not ahead of SQL? Asked before the first commit. A restored
backup knows fewer versions than the log, a cloned database knows another owner. If they were
asked only by the mirror, the first commit would be acknowledged under a number that the log gives
to another commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from deltasql.api.write.in_flight import InFlightWrites
from deltasql.crash import crash_point
from deltasql.errors import (
    AccessDeniedError,
    CatalogError,
    CommitConflictError,
    CommitUnknownError,
    DeltaSqlError,
    LoginRefusedError,
    ObjectNotFoundError,
    OwnershipError,
    PermissionDeniedError,
    SchemaMissingError,
    StorageError,
    StorageUnavailableError,
    TableStateError,
)
from deltasql.events import (
    CommitConflicted,
    CommitFailed,
    DataWriteFailed,
    FailureReason,
    TableFenced,
    VersionCommitted,
)
from deltasql.forks import start_afresh_after_fork
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.metastore.commit.request import (
    CommitRequest,
    Committed,
    TableRead,
    TransactionRequest,
)
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.after_commit import CommitHinter, InlineMirror
from deltasql.mirror.checkpoints.background import BackgroundCheckpoints
from deltasql.mirror.checkpoints.write import Checkpointer
from deltasql.mirror.engine import MirrorEngine, MirrorResult, RetryPolicy
from deltasql.mirror.queue import MirrorStatusTracker, mirror_mode
from deltasql.mirror.worker.periodic_verify import Verifications
from deltasql.protocol.log_names import commit_key
from deltasql.runtime.connection import Connection
from deltasql.storage.location import parse_location
from deltasql.storage.port import ObjectStore

_logger = logging.getLogger(__name__)


class FailureFacts(TypedDict):
    """What an event of a failure has of its error."""

    reason: FailureReason
    error_code: str
    error_message: str


def failure_facts(error: Exception) -> FailureFacts:
    """Return the facts of an error; the text of a foreign one may hold anything: its kind only."""
    if isinstance(error, DeltaSqlError):
        code, message = error.code, error.message
    else:
        code, message = DeltaSqlError.code, f"An unexpected {type(error).__name__}."
    return {"reason": failure_reason(error), "error_code": code, "error_message": message}


def failure_reason(error: Exception) -> FailureReason:
    """Return the class of an error's cause."""
    if not isinstance(error, DeltaSqlError):
        return "unexpected"
    if isinstance(error, CommitUnknownError):
        return "unknown"
    if isinstance(error, AccessDeniedError | PermissionDeniedError | LoginRefusedError):
        return "denied"
    return "unavailable" if error.retryable else "refused"


def require_root(row: TableRow, store: ObjectStore) -> None:
    """Refuse to write to a local table whose folder or owner marker is gone.

    Object stores are not asked: their buckets cannot be unmounted.

    Raises:
        StorageUnavailableError: names the table and what is missing.
    """
    if not row.location.startswith("file:"):
        return
    missing = _missing(row, store)
    if missing is not None:
        raise StorageUnavailableError(
            f"Table {row.full_name} cannot be written: {missing} is missing from {row.location}.",
            hint="Mount the disk that holds it. If the folder was deleted, restore it from a "
            "backup, then run `deltasql recover`.",
            table=row.full_name,
        )


def _missing(row: TableRow, store: ObjectStore) -> str | None:
    if row.current_version < row.first_version:  # the table is only planned
        return None
    if row.mirrored_through >= row.first_version:
        try:
            store.head(OWNER_KEY)
        except ObjectNotFoundError:
            return f"the owner marker {OWNER_KEY}"
    elif not _folder(row.location).is_dir():
        return "its folder"
    return None


@lru_cache(maxsize=1024)
def _folder(location: str) -> Path:
    return Path(parse_location(location).path)


@dataclass(frozen=True, slots=True)
class OwnLogs:
    """Looks at a table's log once per process, before the first commit to it."""

    connection: Connection

    def require(self, row: TableRow) -> None:
        """Refuse a first commit to a table whose log is not ours, and fence the table.

        A store that does not answer within the deadline stops no commit: SQL takes commits while
        the log cannot be reached, and the mirror looks again before its first put.

        Raises:
            OwnershipError: the log is another catalog's, or holds versions that SQL lacks.
        """
        if row.state is not TableState.ACTIVE or self.connection.ownership.is_known(row.table_id):
            return
        try:
            with suppress(StorageError, FutureTimeoutError):
                self._look(row)
        except OwnershipError as error:
            if self.connection.metastore.table_by_id(row.table_id).state is not TableState.ACTIVE:
                return  # dropped, detached or fenced since: the commit itself says so
            self._fence(row, error)
            raise

    def _look(self, row: TableRow) -> None:
        if row.location.startswith("file:"):
            self._ensure(row)
            return
        ended: Future[None] = Future()

        def run() -> None:
            try:
                self._ensure(row)
                ended.set_result(None)
            except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
                ended.set_exception(error)

        try:
            threading.Thread(target=run, name="deltasql-own-log", daemon=True).start()
        except RuntimeError:  # the interpreter ends and starts no thread any more
            run()
        ended.result(timeout=self.connection.settings.mirror.inline_deadline.total_seconds())

    def _ensure(self, row: TableRow) -> None:
        self.connection.ownership.ensure(row, self.connection.store_of(row))

    def _fence(self, row: TableRow, error: OwnershipError) -> None:
        """Stop the commits of all processes until somebody has looked."""
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        with suppress(TableStateError):  # it is fenced, dropped or detached by now
            self.connection.metastore.set_state(row.table_id, conflict, expected=[active])
        crash_point("after-commit-fenced")
        version = self.connection.metastore.table_by_id(row.table_id).current_version
        self.connection.emit(
            TableFenced(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version + 1),
                error_code=error.code,
            )
        )


@dataclass(slots=True)
class Mirroring:
    """The mirror of one open catalog, built by its first commit; reads need none of it."""

    connection: Connection
    engine: MirrorEngine = field(init=False)
    checkpointer: Checkpointer = field(init=False)
    checkpoints: BackgroundCheckpoints = field(init=False)
    verifications: Verifications = field(init=False)
    inline: InlineMirror = field(init=False)
    hinter: CommitHinter = field(init=False)

    def __post_init__(self) -> None:
        connection = self.connection
        database, settings = connection.metastore.database, connection.settings.mirror
        self.engine = MirrorEngine(
            connection, MirrorStatusTracker(database), RetryPolicy.of(settings)
        )
        self.checkpointer = Checkpointer(connection)
        self.checkpoints = BackgroundCheckpoints(
            self.checkpointer,
            connection.metastore.table_by_id,
            lambda row: connection.settings_of(row).mirror.checkpoint_interval,
            lambda row: connection.settings_of(row).mirror.checkpoint_codec,
            sink=connection.emit,
        )
        self.verifications = Verifications(database, connection.leases)
        deadline = settings.inline_deadline.total_seconds()
        self.inline = InlineMirror(self.engine, deadline, self.checkpoints.offer)
        self.hinter = CommitHinter(database.notify_commits)

    def follow(self, commits: Sequence[Committed]) -> None:
        """Mirror commits as the settings say, side by side and under one deadline for all.

        Nothing here fails a commit: what cannot be mirrored now is left to a later attempt.
        """
        until = self.inline.monotonic() + self.inline.deadline_s
        for one, started in [(one, self._start(one)) for one in commits]:
            if started is not None:
                with _left_to_later(one):
                    self.inline.wait(started, until)

    def close(self) -> None:
        """End attempts under way; checkpoints that are due are written."""
        self.inline.close()
        self.hinter.close()
        self.checkpoints.close()

    def _start(self, done: Committed) -> Future[MirrorResult] | None:
        with _left_to_later(done):
            mode = mirror_mode(self.connection, done.before)
            if mode == "inline":
                return self.inline.start(done)
            if mode == "worker" and self.connection.metastore.database.dialect.must_tell_commits:
                self.hinter.hint(done.before.table_id)
        return None


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


@dataclass(slots=True, weakref_slot=True)
class Session:
    """One open catalog; closed once, by the Catalog. Reading builds no mirror."""

    connection: Connection
    in_flight: InFlightWrites = field(init=False)
    own_logs: OwnLogs = field(init=False)
    _mirroring: Mirroring | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        connection = self.connection
        self.in_flight = InFlightWrites(
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

        A commit asks for it before it begins: nothing may fail after a commit.
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


class LazySession:
    """The session of one catalog.

    `find` opens the catalog, or raises SchemaMissingError; `make` makes what is missing and opens
    it. Both leave nothing open where they fail.
    """

    def __init__(self, find: Callable[[], Session], make: Callable[[], Session]) -> None:
        self._find = find
        self._make = make
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._is_closed = False
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Take a lock of its own: in a child nobody would release the parent's."""
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The open catalog; one that another process has made since is found.

        Raises:
            SchemaMissingError: there is none; says what is there.
        """
        return self._session or self._open(self._find)

    def create(self) -> Session:
        """Return the open catalog; one that is missing is made.

        Raises:
            SchemaMissingError: the settings do not allow it.
        """
        return self._session or self._open(self._make)

    def open_if_there(self) -> None:
        """Open the catalog unless it is missing."""
        try:
            self._open(self._find)
        except SchemaMissingError:
            return

    def close(self) -> None:
        """Close the catalog; it is not opened again."""
        with self._lock:
            self._is_closed = True
            session = self._session
        if session is not None:
            session.close()

    def _open(self, how: Callable[[], Session]) -> Session:
        with self._lock:
            if self._is_closed:
                raise CatalogError("The catalog is closed.", hint="Open it again with connect().")
            if self._session is None:
                self._session = how()
            return self._session
