"""What object stores say."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class StorageError(DeltaSqlError):
    """The object store refused or failed."""

    code = "DS400"


class ObjectNotFoundError(StorageError, LookupError):
    """There is no such object."""

    code = "DS401"
    hint = "Check the location; the object may have been deleted by another program."


class ObjectExistsError(StorageError):
    """The object is there already."""

    code = "DS402"


class AccessDeniedError(StorageError):
    """The store refused the credentials."""

    code = "DS403"
    hint = "Check the credentials and permissions for this location."


class StorageUnavailableError(StorageError):
    """The store did not answer, or answered that it cannot now; the outcome is unknown."""

    code = "DS404"
    retryable = True
    exit_code = 6
    hint = "Check that the store can be reached; deltasql tries again by itself where it can."


class UnsafeStoreError(StorageError):
    """The store ignores the conditions that protect commits."""

    code = "DS405"
    hint = "Use a store with conditional writes, or make sure that no other program writes there."
