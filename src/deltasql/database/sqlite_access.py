"""What this user may do with the files of a SQLite catalog, and the driver's errors as ours.

A database in write-ahead mode can only be read with its log and the log's index beside it. Where
they are missing and this user may not make them (a read-only file system, a folder of somebody
else), the log is empty and the database file has everything: it is read as it is.
"""

from __future__ import annotations

import errno
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from deltasql.database.adbc import Error, IntegrityError
from deltasql.database.port import UniqueViolationError
from deltasql.errors import (
    CatalogCorruptError,
    CatalogError,
    CatalogReplacedError,
    CatalogUnavailableError,
)

WAL, INDEX, LOCKS, JOURNAL = "-wal", "-shm", "-lock", "-journal"
NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)

# How the driver says that SQLite could not open a file.
_NOT_OPENED = ("unable to open", "failed to open")
_PREAMBLE = re.compile(r"^(?:[A-Z_]+: |\[SQLite\] |[Ff]ailed to (?:\w+ )+?query: )+")


class Access(StrEnum):
    """How a database file is opened; the value is what SQLite's URI says."""

    SHARED = "mode=rw"
    READING = "mode=ro"
    FROZEN = "mode=ro&immutable=1"


class FileIdentity(NamedTuple):
    """Which file it is, whatever its name is by now."""

    device: int
    inode: int


def identity(path: str) -> FileIdentity | None:
    """Return which file has this name now; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a Path would cost more than the call)
    except FileNotFoundError:
        return None
    return FileIdentity(found.st_dev, found.st_ino)


def access_of(path: Path) -> Access:
    """Return how this user can open a database file that is there.

    Raises:
        CatalogUnavailableError: the file cannot be read without a log that cannot be read.
    """
    name = str(path)
    has_side_files = Path(name + WAL).exists() and Path(name + INDEX).exists()
    if _may_write(name) and (has_side_files or _may_write(str(path.absolute().parent))):
        return Access.SHARED
    if has_side_files:
        return Access.READING
    needed = next((side for side in (WAL, JOURNAL) if size_of(name + side)), None)
    if needed is not None:
        raise CatalogUnavailableError(
            f"The catalog database at {path} cannot be read: its file {path.name}{needed} is not "
            "empty, and this user may not create what SQLite needs to read it.",
            hint="Open the catalog once as a user who may write to its folder.",
        )
    return Access.FROZEN


class FrozenFile:
    """A database file without a log, read as it is.

    Where the lock file is there, its lock keeps writers of ours from changing the database file
    while it is read. Where it is not, no writer of ours has opened the file yet: the first one
    makes it before anything else.
    """

    def __init__(self, path: Path) -> None:
        found = identity(str(path))
        if found is None:
            raise CatalogReplacedError(f"The catalog database at {path} is gone.")
        self.path = str(path)
        self.database = found
        self.log: FileIdentity | None = None
        self._has_locks = Path(self.path + LOCKS).exists()

    def note_log(self) -> None:
        """Do nothing: there is none."""

    def is_in_place(self) -> bool:
        """Tell whether it is the file that was opened, and nobody else has begun to use it."""
        is_unused = self._has_locks or not Path(self.path + LOCKS).exists()
        return is_unused and identity(self.path) == self.database

    def require_no_log(self) -> None:
        """Refuse a file that somebody has begun to write a log for.

        Raises:
            CatalogUnavailableError: the log has what the file lacks.
        """
        if size_of(self.path + WAL):
            raise changed_meanwhile(self.path)

    def log_frames(self) -> int:
        """Return how many pages the write-ahead log holds."""
        return 0


def changed_meanwhile(path: object) -> CatalogUnavailableError:
    """Return the error for a file that changed under a reader who may not write beside it."""
    return CatalogUnavailableError(
        f"The catalog database at {path} was changed while it was read.", hint="Try again."
    )


def refusal_to_write(database: str, file: str) -> CatalogUnavailableError:
    """Return the error for a writer who may not write to the database, or to a file beside it."""
    if os.statvfs(database).f_flag & os.ST_RDONLY:
        reason = "its file system is read-only"
    elif file == database:
        reason = "this user may not write to the file, or not to its folder"
    else:
        reason = f"this user may not write to {Path(file).name} beside it"
    return CatalogUnavailableError(
        f"The catalog database at {database} cannot be written: {reason}.",
        hint="Writers need the right to write to the database file and to its folder.",
    )


def size_of(path: str) -> int:
    """Return a file's size; 0 where there is none."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _may_write(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


class DriverErrors:
    """Turns the driver's errors into ours, as a context; SQLite's messages are not localised."""

    __slots__ = ("_access", "_path")

    def __init__(self, path: object, access: Access = Access.SHARED) -> None:
        self._path = path
        self._access = access

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # a bulk insert names the constraint in a general error
        if isinstance(error, IntegrityError) or (
            isinstance(error, Error) and "UNIQUE constraint failed" in str(error)
        ):
            raise UniqueViolationError(f"The catalog refused a row: {error}.") from error
        if isinstance(error, Error):
            raise _ours(str(error), self._path, self._access) from error


def _ours(text: str, path: object, access: Access) -> CatalogError:
    reason = _PREAMBLE.sub("", text.partition("\nquery:")[0]).rstrip(".")
    if "locked" in text or "busy" in text:
        return CatalogUnavailableError(
            "The catalog database is locked by another program.",
            hint="Another process holds the database; try again when it is done.",
        )
    if "disk is full" in text:
        return CatalogUnavailableError(
            f"The disk of the catalog database at {path} is full.",
            hint="Make room on the disk, then try again.",
        )
    if "readonly" in text and access is Access.READING:
        # a writer has opened the catalog and not yet made the log's index, which we may not make
        return changed_meanwhile(path)
    if "disk I/O error" in text or "readonly" in text:
        done = "written" if access is Access.SHARED else "read"
        return CatalogUnavailableError(
            f"The catalog database at {path} cannot be {done}: {reason}."
        )
    known = _unusable_file(text, reason, path)
    return known or CatalogError(f"The catalog database refused a statement: {reason}.")


def _unusable_file(text: str, reason: str, path: object) -> CatalogError | None:
    if "not a database" in text:
        return CatalogCorruptError(
            f"The file {path} is not a SQLite database.",
            hint="Check the path in the URI. If the file was a catalog, restore it from a backup.",
        )
    if "malformed" in text:
        return CatalogCorruptError(f"The catalog database at {path} is damaged: {reason}.")
    if any(sign in text for sign in _NOT_OPENED):
        return CatalogUnavailableError(
            f"The catalog database at {path} cannot be opened.",
            hint="Check that the file and its folder exist and that this user may write there.",
        )
    return None
