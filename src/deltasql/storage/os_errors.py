"""Errors of the operating system, translated in one place."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

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
