"""Delete the objects of a dropped table: those the book knew, and its log."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.crash import crash_point
from deltasql.errors import StorageError, UnsafePathError
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore


def delete_objects(store: ObjectStore, paths: Iterable[str]) -> None:
    """Delete data files below the root, then the log; what lies elsewhere is never touched.

    The table is out of the book by then, so a crash leaves objects that nobody refers to.

    Raises:
        StorageError: some objects could not be deleted; all others were.
    """
    crash_point("before-purge")
    failures = [error for path in paths if (error := _delete(store, path)) is not None]
    for info in list(store.list_from(LOG_FOLDER)):
        store.delete(info.key)
    if failures:
        raise StorageError(
            f"The table is dropped, but {len(failures)} objects at {store.uri} are left: "
            f"{failures[0].message}",
            hint="Delete the folder by hand when nobody needs it.",
        ) from failures[0]


def _delete(store: ObjectStore, path: str) -> StorageError | None:
    try:
        found = resolve_path(path)
        if isinstance(found, RelativeKey):
            store.delete(found.key)
    except UnsafePathError:
        return None
    except StorageError as error:
        return error
    return None
