"""Write one commit to the log, exactly once."""

from __future__ import annotations

from deltasql.crash import crash_point
from deltasql.errors import MirrorConflictError
from deltasql.protocol.files import commit_key
from deltasql.storage.create import Created, Creation, create_tagged
from deltasql.storage.port import ObjectStore


def write_commit(store: ObjectStore, version: int, payload: bytes) -> Creation:
    """Put a version's bytes if absent, and read back whenever the outcome is in doubt.

    The caller has made sure that the version before it is there.

    Raises:
        MirrorConflictError: the log holds other bytes; they were left untouched.
        StorageUnavailableError: nothing is there; try again.
    """
    key = commit_key(version)
    crash_point("before-put")
    created = create_tagged(store, key, payload)
    crash_point("after-put")
    if created.outcome is Created.DIFFERENT:
        raise MirrorConflictError(
            f"{key} at {store.uri} holds other bytes than version {version} in SQL.",
            key=key,
            version=version,
        )
    return created
