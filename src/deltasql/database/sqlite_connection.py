"""One connection to a SQLite catalog: durable, shared with others, never left in a transaction."""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import adbc_driver_sqlite
import pyarrow as pa

from deltasql.crash import crash_point
from deltasql.database.adbc import TEMPORARY, AdbcConnection, Error
from deltasql.database.sqlite_access import (
    Access,
    DriverErrors,
    FileIdentity,
    FrozenFile,
    access_of,
    changed_meanwhile,
    identity,
)
from deltasql.database.sqlite_files import BUSY_S, CatalogLocks, DatabaseGuard, Guards
from deltasql.errors import (
    CatalogError,
    CatalogReplacedError,
    CatalogUnavailableError,
    CommitUnknownError,
    ConfigError,
)
from deltasql.forks import ForkGate, abandon, fork_count, start_afresh_after_fork

# Pages of the write-ahead log from which a commit checkpoints it (SQLite's own default), and from
# which it waits for a moment without readers.
_CHECKPOINT_PAGES, _TOO_MANY_PAGES = 1_000, 16_000
_WAIT_FOR_READERS_S = 1.0
_INDEX_POLL_S = 0.01
# Any query will do to begin a read.
_SCHEMA_ROWS = "select count(*) from sqlite_master"

_gate = ForkGate()
_guards = Guards()


class _OpenConnections:
    """All connections of this process, for a child to get rid of.

    The library would let new connections of the child join the parent's, whose locks the child does
    not have. Idle ones are closed, which changes no file while the parent's guard is in the way;
    with one that is in use that cannot be done.
    """

    def __init__(self) -> None:
        self.connections: weakref.WeakSet[SqliteConnection] = weakref.WeakSet()
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Close the parent's connections."""
        open_ones, self.connections = list(self.connections), weakref.WeakSet()
        in_use = [each for each in open_ones if _gate.is_unsafe or not each.is_idle()]
        for connection in open_ones:
            if connection in in_use:
                abandon(connection)
            else:
                connection.close_inherited()
        _guards.forget_parent(keep=bool(in_use))


_open = _OpenConnections()


def make_wal(path: Path) -> None:
    """Bring a database file to write-ahead logging; makes the file if there is none.

    Raises:
        ConfigError: the file cannot be used that way.
    """
    with _gate.call, DriverErrors(path):
        raw = AdbcConnection(adbc_driver_sqlite.connect(_address(path, "mode=rwc")))
        try:
            raw.rows(f"pragma busy_timeout = {BUSY_S * 1000:.0f}")
            mode = raw.rows("pragma journal_mode = wal")[0][0]
        finally:
            raw.close()
    if mode != "wal":
        raise ConfigError(
            f"The catalog at {path} cannot use write-ahead logging (mode {mode}).",
            hint="Put the database file on a local disk.",
        )


def query_once(path: Path, access: Access, text: str) -> list[tuple[Any, ...]]:
    """Run one query on a file that may be no catalog: no lock file, no change of its mode."""
    _refuse_unsafe_child()
    with _gate.call, DriverErrors(path, access):
        raw = AdbcConnection(adbc_driver_sqlite.connect(_address(path, access)))
        try:
            return raw.rows(text)
        finally:
            raw.close()


class _Library:
    """The way of a statement into SQLite, as a context: no fork meanwhile, its errors as ours.

    A write transaction has passed the gate as a whole: while `is_in_change`, its statements need
    not pass it again.
    """

    __slots__ = ("_errors", "_process", "is_in_change")

    def __init__(self, path: Path, access: Access) -> None:
        self.is_in_change = False
        self._errors = DriverErrors(path, access)
        self._process = fork_count()

    def __enter__(self) -> None:
        if fork_count() != self._process:
            raise CatalogError(
                "A connection to the catalog was opened before this process was forked.",
                hint="Begin the read or the transaction again in this process.",
            )
        if not self.is_in_change:
            _gate.call.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_in_change:
            _gate.call.__exit__()
        self._errors.__exit__(kind, error, trace)


class SqliteConnection:
    """A connection; used by one thread at a time.

    `expected` is the database file that it must be, where the caller has had one open before.
    """

    _guard: DatabaseGuard | FrozenFile
    _locks: CatalogLocks

    def __init__(self, path: Path, expected: FileIdentity | None = None) -> None:
        _refuse_unsafe_child()
        self._process = fork_count()
        self._is_broken = False
        self._is_locked = False
        self._is_in_transaction = False
        self._is_durable: bool | None = None
        self._raw: AdbcConnection | None = None
        _open.connections.add(self)
        self._access = access_of(path)
        self._library = _Library(path, self._access)
        if self._access is Access.FROZEN:
            self._freeze(path, expected)
        else:
            with _guards.held(path, lambda: make_wal(path), self._access) as self._guard:
                _require_same(path, self._guard.database, expected)
                self._locks = CatalogLocks(path, self._access)
        try:
            with _gate.call, DriverErrors(path, self._access):
                database = adbc_driver_sqlite.connect(_address(path, self._access))
                self._raw = AdbcConnection(database, guesses_types=True)
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _freeze(self, path: Path, expected: FileIdentity | None) -> None:
        """Take a file that is read as it is; SQLite would not see that it changes.

        The lock against checkpoints is kept until the connection closes, which is after one use.
        """
        self._guard = frozen = FrozenFile(path)
        _require_same(path, frozen.database, expected)
        self._locks = CatalogLocks(path, self._access)
        try:
            self._locks.lock_for_read()
            frozen.require_no_log()
        except BaseException:
            self._locks.close()
            raise

    def _set_up(self) -> None:
        self.rows(f"pragma busy_timeout = {BUSY_S * 1000:.0f}")
        self.execute("pragma wal_autocheckpoint = 0")  # we do it, when nobody reads
        if self._access is Access.SHARED:
            self.set_durable(durable=True)
        self.execute("pragma foreign_keys = on")
        with self.look():
            self.rows(_SCHEMA_ROWS)  # opens the log
        if self._guard.log is None:
            self._guard.note_log()

    @property
    def file(self) -> FileIdentity:
        """Which database file it is."""
        return self._guard.database

    def is_idle(self) -> bool:
        """Tell whether nothing is open on the connection, so that another thread may use it."""
        is_free = not (self._is_broken or self._is_locked or self._is_in_transaction)
        is_free &= self._access is not Access.FROZEN  # for one use only
        is_free &= not self._library.is_in_change  # an interrupt came at the end of a write
        return is_free and self._raw is not None and not self._raw.is_unfinished

    def is_usable(self) -> bool:
        """Tell whether the connection can be lent: it is idle, and its file is still the catalog.

        Writes look at all its files, before they begin and behind their COMMIT.
        """
        return self.is_idle() and identity(self._guard.path) == self._guard.database

    def set_durable(self, *, durable: bool) -> None:
        """Choose whether a commit waits for the disk; the log keeps its order anyway."""
        if self._is_durable is not durable:
            self.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
            self._is_durable = durable

    @contextmanager
    def look(self) -> Iterator[None]:
        """Run single queries, each of which sees the newest state."""
        self._is_locked = True
        try:
            self._locks.lock_for_read()
            if self._access is Access.READING:
                self._wait_for_index()
            yield
        finally:
            self._unlock()

    def _wait_for_index(self) -> None:
        """A writer that opens the catalog makes the log's index anew, which takes a moment."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                self.rows(_SCHEMA_ROWS)
            except CatalogUnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_INDEX_POLL_S)
            else:
                return

    @contextmanager
    def read(self) -> Iterator[None]:
        """Keep one state over several queries."""
        with self.look():
            self._is_in_transaction = True
            try:
                self.execute("begin")
                yield
            finally:
                self._roll_back()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold the catalog's one write transaction; committed on a clean exit.

        Raises:
            CatalogReplacedError: the files are not those that were opened; nothing was written.
            CommitUnknownError: COMMIT failed, or the files were replaced meanwhile.
        """
        self._is_locked = True
        try:
            self._locks.lock_for_write()
            with _gate.change:  # a child that is forked inside could never write
                self._library.is_in_change = True
                try:
                    yield from self._transaction()
                finally:
                    self._library.is_in_change = False
        finally:
            self._unlock()

    def _transaction(self) -> Iterator[None]:
        self._is_in_transaction = True
        try:
            self.execute("begin immediate")
            self._require_files()
            yield
        except BaseException:
            self._roll_back()
            raise
        self._commit()
        self._checkpoint_if_due()

    def execute(self, text: str, values: bytes | None = None, blob: bytes | None = None) -> None:
        """Run a statement."""
        with self._library:
            self._driver().execute(text, values, blob)

    def execute_each(self, text: str, values: Sequence[bytes], blobs: Sequence[bytes]) -> None:
        """Run a statement for each pair of values and bytes."""
        with self._library:
            self._driver().execute_each(text, values, blobs)

    def rows(self, text: str, values: bytes | None = None) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        with self._library:
            return self._driver().rows(text, values)

    def ingest(self, name: str, rows: pa.Table, *, into: Mapping[str, str] = TEMPORARY) -> int:
        """Append rows to a table and return how many arrived."""
        with self._library:
            return self._driver().ingest(name, rows, into=into)

    def batches(self, text: str, values: bytes | None) -> Generator[pa.RecordBatch, None, None]:
        """Run a query and yield its rows in batches."""
        with closing(self._driver().batches(text, values)) as batches:
            while True:
                with self._library:
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    def close(self) -> None:
        """Close; the last connection of all leaves a database file that is complete by itself."""
        raw, self._raw = self._raw, None
        if raw is None or fork_count() != self._process:
            return
        try:
            with suppress(CatalogError, Error, OSError):
                if self._is_in_transaction:
                    raw.execute("rollback")
                elif self._guard.is_in_place() and self._locks.is_last():
                    self._complete_database(raw)
            with _gate.call:
                is_closed = raw.close()
            if is_closed:  # else its index stays mapped, and must not be emptied by a new guard
                _guards.release(self._guard)
        finally:
            self._locks.close()

    def close_inherited(self) -> None:
        """Close the library's side only: everything else is the parent's."""
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def __del__(self) -> None:
        """Release the locks of a connection that an interrupt has torn out of its owner's hands."""
        with suppress(Exception):
            self.close()

    def _driver(self) -> AdbcConnection:
        if self._raw is None:
            raise CatalogError("The catalog is closed.", hint="Open it again with connect().")
        return self._raw

    def _require_files(self) -> None:
        if not self._guard.is_in_place():
            self._is_broken = True
            raise CatalogReplacedError(
                f"The files of the catalog database at {self._guard.path} were replaced or removed "
                "while this process had them open; nothing was written."
            )

    def _commit(self) -> None:
        """Commit; if COMMIT fails, the outcome is unknown until the database is asked again."""
        try:
            self.execute("commit")
        except CatalogError as error:
            self._roll_back()
            repeat = "A commit that is sent again with its commit_id is never applied twice."
            hint = f"{error.advice} {repeat}" if error.advice else None
            raise CommitUnknownError(f"COMMIT failed: {error.message}", hint=hint) from error
        except BaseException:
            self._roll_back()
            raise
        self._is_in_transaction = False
        crash_point("after-sqlite-commit")
        try:
            self._require_files()
        except CatalogReplacedError as error:
            raise CommitUnknownError(
                f"The files of the catalog database at {self._guard.path} were replaced during a "
                "commit."
            ) from error

    def _roll_back(self) -> None:
        """End the transaction; a connection that cannot is not used again."""
        try:
            self.execute("rollback")
        except CatalogError:
            self._is_broken = True
        self._is_in_transaction = False

    def _unlock(self) -> None:
        if self._access is Access.FROZEN:
            self._is_locked = False
            if not self._guard.is_in_place():
                raise changed_meanwhile(self._guard.path)
        elif fork_count() == self._process:  # else the lock is the parent's
            self._locks.unlock()
            self._is_locked = False

    def _checkpoint_if_due(self) -> None:
        """Copy a long log into the database, while nobody reads and nobody else writes."""
        frames = self._guard.log_frames()
        if frames < _CHECKPOINT_PAGES:
            return
        wait_s = _WAIT_FOR_READERS_S if frames >= _TOO_MANY_PAGES else 0.0
        if self._locks.try_lock_for_checkpoint(wait_s):
            crash_point("before-sqlite-checkpoint")
            with suppress(CatalogError):  # the commit is made; the next one tries again
                self.rows("pragma wal_checkpoint(passive)")

    def _complete_database(self, raw: AdbcConnection) -> None:
        """Copy the log into the database file and empty it, unless another program is in the way.

        The log file itself is kept: another process may be opening it.
        """
        if self._guard.log_frames():
            with _gate.call:
                raw.rows("pragma busy_timeout = 0")
                raw.rows("pragma wal_checkpoint(truncate)")


def _address(path: Path, access: str) -> str:
    """Return the file as a URI: by it alone SQLite does not make a file that is missing."""
    return f"file:{quote(str(path.absolute()))}?{access}"


def _require_same(path: Path, found: FileIdentity, expected: FileIdentity | None) -> None:
    if expected not in (None, found):
        raise CatalogReplacedError(
            f"The catalog database at {path} is another file than the one that was opened.",
            hint="Open the catalog again.",
        )


def _refuse_unsafe_child() -> None:
    if _gate.is_unsafe:
        raise CatalogError(
            "This process was forked while another thread was using SQLite, whose state it has "
            "inherited in the middle of a change.",
            hint="Start processes by spawn, or fork before the catalog is used by threads.",
        )
