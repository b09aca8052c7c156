"""Files that are whole and on the disk before anyone sees their name; the system's errors as ours.

Write to a temporary name in the same directory, fsync, give it its name (hard link: only where
there is none; rename: whatever is there), fsync the directory. A crash leaves at most a temporary
file, which `LocalStore.sweep_leftovers` removes.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deltasql.crash import crash_point
from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
    UnsafeStoreError,
)

_KINDS: dict[int, type[StorageError]] = {
    errno.ENOENT: ObjectNotFoundError,
    errno.EEXIST: ObjectExistsError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
    errno.EROFS: AccessDeniedError,
    # the name itself cannot be used: trying again does not help
    errno.ENOTDIR: StorageError,
    errno.EISDIR: StorageError,
    errno.ENOTEMPTY: StorageError,
    errno.ENAMETOOLONG: StorageError,
    errno.EINVAL: StorageError,
    errno.EILSEQ: StorageError,
    errno.ELOOP: StorageError,
    # hard links are what makes a create safe
    errno.EOPNOTSUPP: UnsafeStoreError,
    errno.ENOSYS: UnsafeStoreError,
    errno.EMLINK: UnsafeStoreError,
}

_MAKE_ROOM = "Make room on the disk of the table, then try again."
_HINTS = {errno.ENOSPC: _MAKE_ROOM, errno.EDQUOT: _MAKE_ROOM}

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp", re.DOTALL)
_VENDOR_LEFTOVER = re.compile(r".+#[0-9]+", re.DOTALL)
_NAME_BYTES = 255
_SUFFIX_BYTES = len("..0123456789abcdef.tmp")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def translated(doing: str, key: str) -> Iterator[None]:
    """Turn an OSError inside into our error that names the key; all others mean "try again"."""
    try:
        yield
    except OSError as error:
        raise from_os(error, doing, key) from error


def from_os(error: OSError, doing: str, key: str) -> StorageError:
    """Return our error for one of the operating system's."""
    number = error.errno or 0
    kind = _KINDS.get(number, StorageUnavailableError)
    reason = os.strerror(number) if number else type(error).__name__
    message = f"Could not {doing} {key!r}: {reason}."
    return kind(message, hint=_HINTS.get(number), key=key, errno=number)


def is_temporary(name: str) -> bool:
    """Tell whether the file name is one that we use before a file is finished."""
    return _TEMPORARY.fullmatch(name) is not None


def is_vendor_leftover(name: str) -> bool:
    """Tell whether other object-store clients use such a name before a file is finished."""
    return _VENDOR_LEFTOVER.fullmatch(name) is not None


def temporary_name(name: str, roll: bytes) -> str:
    """Return `.<name>.<roll>.tmp`, the name cut so that it fits into one directory entry."""
    room = _NAME_BYTES - _SUFFIX_BYTES
    cut = name.encode()[:room].decode(errors="ignore")
    return f".{cut}.{roll.hex()}.tmp"


def create_temporary(path: Path, roll: Callable[[int], bytes]) -> tuple[int, Path]:
    """Open a new temporary file beside `path`; the directory is made durable first."""
    make_directories(path.parent)
    temporary = path.parent / temporary_name(path.name, roll(8))
    return os.open(temporary, _NEW_FILE, 0o666), temporary


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; the system may take fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def link_new(temporary: Path, path: Path) -> None:
    """Give the file its name only where there is none, durably."""
    crash_point("storage.local.before_link")
    try:
        os.link(temporary, path)
    except PermissionError as error:
        if error.errno == errno.EPERM:  # what Linux says where there are no hard links
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)) from error
        raise
    crash_point("storage.local.after_link")
    temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def replace(temporary: Path, path: Path) -> None:
    """Give the file its name, whatever bore it before, durably."""
    crash_point("storage.local.before_rename")
    temporary.replace(path)
    sync_directory(path.parent)


def make_directories(directory: Path) -> None:
    """Create the directory and what is missing above it; each entry is synced by its parent."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for new in reversed(missing):
        try:
            new.mkdir(exist_ok=True)
        except FileExistsError as error:  # a file stands where a directory must be
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        sync_directory(new.parent)


def sync_directory(directory: Path) -> None:
    """Make the directory's entries survive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
