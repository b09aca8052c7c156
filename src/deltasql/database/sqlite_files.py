"""The files of a SQLite catalog, and locks on them that no other library can cancel.

SQLite's own locks are POSIX locks: when any descriptor of the file is closed in the process, for
example by Python's `sqlite3` or by DuckDB, the kernel releases all of them. The next process that
closes the database then finds no other user and deletes the write-ahead log that is still written
to, and two writers may write at once. Locks of open file descriptions (OFD) belong to a descriptor
and not to the process, so they stay. We take them in addition to SQLite's own, in two places:

- `DatabaseGuard` holds the locks that SQLite looks for before it takes the write-ahead log or its
  index away: while one of our processes has the database open, no SQLite library does that.
- `CatalogLocks`, on a file of our own beside the database, orders our own processes: one writer,
  and no checkpoint of the write-ahead log while somebody reads. See docs/decisions/0001.

`sqlite_access` says what this user may do with the files; who may only read creates none of them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deltasql.crash import crash_point
from deltasql.database.sqlite_access import (
    INDEX,
    LOCKS,
    NO_RIGHT,
    WAL,
    Access,
    FileIdentity,
    FrozenFile,
    identity,
    refusal_to_write,
)
from deltasql.errors import (
    CatalogReplacedError,
    CatalogUnavailableError,
    ConfigError,
    PermissionDeniedError,
)

BUSY_S = 30.0

# Where SQLite has its locks: readers of the database file, and the users of the log's index.
_READERS = (0x40000002, 510)
_INDEX_USERS = (128, 1)

# Where the number of the log's last frame stands in its index.
_LAST_FRAME = (16, 4)
_WAL_FORMAT = b"\x02\x02"
_FORMAT = (18, 2)

# Our own locks, far behind what the lock file holds.
_OPEN, _WRITER, _READING = 1 << 20, (1 << 20) + 1, (1 << 20) + 2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.01
_BUSY = (errno.EAGAIN, errno.EACCES)
_NO_FILE = -1

# struct flock
_LOCK = "hhqqi0q"

# The descriptors of all `CatalogLocks` of this process.
_lock_files: set[int] = set()


def is_there(path: Path) -> bool:
    """Tell whether there is something at the path.

    Raises:
        PermissionDeniedError: this user may not look.
        ConfigError: no file can have such a path.
    """
    try:
        return path.exists()
    except PermissionError as error:
        raise no_right_error(path) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"There can be no catalog database at {path}: {reason}.") from error


def require_folder(path: Path) -> None:
    """Refuse a path whose folder is missing: it is not made, it may be a disk not yet mounted.

    Raises:
        ConfigError: names the folder.
    """
    if not path.parent.is_dir():
        raise ConfigError(
            f"The folder {path.parent.absolute()} of the catalog database does not exist.",
            hint="Create the folder, or correct the path in the URI.",
        )


def no_right_error(path: Path) -> PermissionDeniedError:
    """Return the error of a file that this user may not open."""
    return PermissionDeniedError(
        f"This user may not open the catalog database at {path}.",
        hint="Check the owner and the mode of the file and of its folder.",
    )


class DatabaseGuard:
    """Keeps the write-ahead log of a database in place while this process uses it.

    Its descriptors are closed behind the last connection: to close one cancels the POSIX locks of
    every connection to the same file.
    """

    def __init__(self, path: Path, make_wal: Callable[[], None], access: Access) -> None:
        """Open the files; `make_wal` brings a database that is new, or of another mode, to WAL."""
        self.path = str(path)
        self._access = access
        self._descriptors: list[int] = []
        try:
            self._database = self._open(self.path, create=False)
            is_wal = os.pread(self._database, _FORMAT[1], _FORMAT[0]) == _WAL_FORMAT
            if access is Access.SHARED and not is_wal:
                make_wal()
            self.database = _identity_of(self._database)
            _wait(lambda: _lock(self._database, fcntl.F_RDLCK, *_READERS), BUSY_S, self.path)
            self._refuse_log_of_another_file()
            self._index = self._guard_index()
        except BaseException:
            self.close()
            raise
        self.index = None if self._index is None else _identity_of(self._index)
        self.log: FileIdentity | None = None

    def note_log(self) -> None:
        """Remember which write-ahead log belongs to the database; a connection has opened it."""
        self.log = identity(self.path + WAL)
        known = self._record()
        if self._access is Access.SHARED and known != _Record.read(self.path):
            known.write(self.path)

    def is_in_place(self) -> bool:
        """Tell whether database, log and index are still the files that have these names."""
        return (
            identity(self.path) == self.database
            and (self.log is None or identity(self.path + WAL) == self.log)
            and (self.index is None or identity(self.path + INDEX) == self.index)
        )

    def log_frames(self) -> int:
        """Return how many pages the write-ahead log holds."""
        if self._index is None:
            return 0
        size, place = _LAST_FRAME[1], _LAST_FRAME[0]
        found = os.pread(self._index, size, place)
        return int.from_bytes(found, sys.byteorder) if len(found) == size else 0

    def close(self) -> None:
        """Close the descriptors, and with them the locks."""
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)

    def _refuse_log_of_another_file(self) -> None:
        """A log that was written for another database file would be read into this one."""
        known = _Record.read(self.path)
        log = identity(self.path + WAL)
        if known is None or log is None or known.database == self.database.inode:
            return
        if known.log == log.inode and Path(self.path + WAL).stat().st_size:
            raise CatalogReplacedError(
                f"The catalog database at {self.path} was replaced while its write-ahead log "
                f"{Path(self.path + WAL).name} stayed; the two do not belong together."
            )

    def _record(self) -> _Record:
        return _Record(self.database.inode, self.log.inode if self.log else 0)

    def _guard_index(self) -> int | None:
        """Join the users of the log's index; the first one empties it, as SQLite does.

        What a machine that crashed has left of the index may not fit to the log.
        """
        try:
            index = self._open(self.path + INDEX, create=self._access is Access.SHARED)
        except OSError as error:
            if error.errno not in (*NO_RIGHT, errno.ENOENT):
                raise
            return None
        if _is_read_only(index):
            # The first user would have to empty it. SQLite then makes an index of its own in
            # memory, unless our lock says that this one is in use and can be trusted.
            if not _is_locked_by_others(index, *_INDEX_USERS):
                return index
        elif _lock(index, fcntl.F_WRLCK, *_INDEX_USERS):
            os.ftruncate(index, 0)
        _wait(lambda: _lock(index, fcntl.F_RDLCK, *_INDEX_USERS), BUSY_S, self.path)
        crash_point("after-sqlite-index-joined")
        return index

    def _open(self, path: str, *, create: bool) -> int:
        flags = os.O_CLOEXEC | (os.O_CREAT if create else 0)
        access = os.O_RDWR if self._access is Access.SHARED else os.O_RDONLY
        try:
            mode = os.fstat(self._database).st_mode & 0o777 if create else 0o644
            descriptor = os.open(path, access | flags, mode)
        except OSError as error:
            if error.errno not in NO_RIGHT:
                raise
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        return descriptor


@dataclass(frozen=True, slots=True)
class _Record:
    """Which database file and which log were in use together last; kept in the lock file."""

    database: int
    log: int

    @classmethod
    def read(cls, path: str) -> _Record | None:
        try:
            text = Path(path + LOCKS).read_text(encoding="ascii")
            database, log = map(int, text.split())
        except (OSError, ValueError):
            return None
        return cls(database, log)

    def write(self, path: str) -> None:
        with suppress(PermissionError):
            Path(path + LOCKS).write_text(f"{self.database} {self.log}\n", encoding="ascii")


class Guards:
    """The guards of this process: one for each database file that has connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guards: dict[str, tuple[DatabaseGuard, int]] = {}

    @contextmanager
    def held(
        self, path: Path, make_wal: Callable[[], None], access: Access
    ) -> Iterator[DatabaseGuard]:
        """Give the guard to a connection that is about to be opened; on an error it is dropped."""
        guard = self._take(path, make_wal, access)
        try:
            yield guard
        except Exception:  # behind an interrupt a handle may be open that nobody has any more
            self.release(guard)
            raise

    def release(self, guard: DatabaseGuard | FrozenFile) -> None:
        """Say that a connection is closed."""
        with self._lock:
            for key, (known, users) in self._guards.items():
                if known is guard:
                    if users > 1:
                        self._guards[key] = (guard, users - 1)
                    else:
                        del self._guards[key]
                        guard.close()
                    return

    def forget_parent(self, *, keep: bool) -> None:
        """In a child: drop the parent's guards and locks, which last until all descriptors close.

        With `keep` the guards stay locked for good: connections of the parent could not be closed,
        and the log's index that they have mapped must not be emptied. Otherwise the child holds
        nothing yet that a close could cancel.
        """
        for guard, _ in self._guards.values():
            if not keep:
                guard.close()
        for file in _lock_files:
            with suppress(OSError):
                os.close(file)
        _lock_files.clear()
        self._lock = threading.Lock()
        self._guards = {}

    def _take(self, path: Path, make_wal: Callable[[], None], access: Access) -> DatabaseGuard:
        key = str(path.resolve())
        with self._lock:
            guard, users = self._guards.get(key, (None, 0))
            if guard is not None and not guard.is_in_place():
                # its connections are found out one by one; until then it keeps their files
                self._guards[f"{key}#{guard.database.inode}"] = self._guards.pop(key)
                guard, users = None, 0
            if guard is None:
                guard = _guard(path, make_wal, access)
            self._guards[key] = (guard, users + 1)
            return guard


def _guard(path: Path, make_wal: Callable[[], None], access: Access) -> DatabaseGuard:
    try:
        return DatabaseGuard(path, make_wal, access)
    except FileNotFoundError as error:
        raise CatalogReplacedError(f"The catalog database at {path} is gone.") from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"The catalog database {path} is a folder.",
            hint="Name a file in it: deltasql://sqlite/<folder>/<file>.",
        ) from error
    except PermissionError as error:
        raise no_right_error(path) from error
    except OSError as error:
        raise CatalogUnavailableError(
            f"The catalog database at {path} cannot be opened: {error.strerror}."
        ) from error


class CatalogLocks:
    """One connection's locks among our own processes."""

    def __init__(self, path: Path, access: Access) -> None:
        self.path = str(path)
        self._access = access
        self._file = _open_lock_file(self.path + LOCKS, path.stat().st_mode & 0o777, access)
        if self._file == _NO_FILE:
            return
        _lock_files.add(self._file)
        try:
            _wait(lambda: _lock(self._file, fcntl.F_RDLCK, _OPEN, 1), BUSY_S, self.path)
        except BaseException:
            self.close()
            raise

    def lock_for_write(self) -> None:
        """Wait until no other connection writes.

        Raises:
            CatalogUnavailableError: somebody else writes for longer than anybody should, or this
                user may not write.
        """
        if self._access is not Access.SHARED:
            raise refusal_to_write(self.path, self.path)
        if self._may_only_read():
            raise refusal_to_write(self.path, self.path + LOCKS)
        _wait(lambda: _lock(self._file, fcntl.F_WRLCK, _WRITER, 1), BUSY_S, self.path)

    def lock_for_read(self) -> None:
        """Let no checkpoint of the log begin; waits for one that runs."""
        if self._file == _NO_FILE:
            return  # a folder that this user may not write to: SQLite's own locks must do
        _wait(lambda: _lock(self._file, fcntl.F_RDLCK, _READING, 1), BUSY_S, self.path)

    def _may_only_read(self) -> bool:
        return self._file == _NO_FILE or _is_read_only(self._file)

    def try_lock_for_checkpoint(self, seconds: float) -> bool:
        """Shut readers out if there are none now, or none at some moment of the next seconds."""
        deadline = time.monotonic() + seconds
        while not _lock(self._file, fcntl.F_WRLCK, _READING, 1):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LONGEST_PAUSE_S)
        return True

    def is_last(self) -> bool:
        """Tell whether no other connection is open, in any process; a reader cannot know."""
        return not self._may_only_read() and _lock(self._file, fcntl.F_WRLCK, _OPEN, 1)

    def unlock(self) -> None:
        """Let others write, read and checkpoint."""
        if self._file != _NO_FILE:
            _lock(self._file, fcntl.F_UNLCK, _WRITER, 2)

    def close(self) -> None:
        """Release everything, also where a child still has the descriptor."""
        file, self._file = self._file, _NO_FILE
        if file != _NO_FILE:
            _lock(file, fcntl.F_UNLCK, _OPEN, 3)
            _lock_files.discard(file)
            os.close(file)


def _open_lock_file(path: str, mode: int, access: Access) -> int:
    """Open the lock file, for reading where this user may not write; -1 where there is none.

    Who may not write to the database makes none: others could not write to theirs.
    """
    if access is Access.SHARED:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in NO_RIGHT:
                raise
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return _NO_FILE


def _identity_of(descriptor: int) -> FileIdentity:
    found = os.fstat(descriptor)
    return FileIdentity(found.st_dev, found.st_ino)


def _is_read_only(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def _is_locked_by_others(descriptor: int, start: int, length: int) -> bool:
    request = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    found: int = struct.unpack(_LOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request))[0]
    return found != fcntl.F_UNLCK


def _lock(descriptor: int, kind: int, start: int, length: int) -> bool:
    """Set a lock of the open file description; False if another one is in the way."""
    request = struct.pack(_LOCK, kind, os.SEEK_SET, start, length, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    except AttributeError as error:
        raise ConfigError(
            "A catalog in SQLite needs locks of open files (F_OFD_SETLK), which this system lacks.",
            hint="Run deltasql on Linux, or keep the catalog in PostgreSQL.",
        ) from error
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def _wait(attempt: Callable[[], bool], seconds: float, path: str) -> None:
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE_S
    while not attempt():
        if time.monotonic() >= deadline:
            raise CatalogUnavailableError(
                f"The catalog database at {path} is in use by another process for {seconds:.0f} s.",
                hint="Another process holds the database; try again when it is done.",
            )
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)
