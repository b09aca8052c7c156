"""Delete the objects of a dropped table: those the book knew, and its log."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.crash import crash_point
from deltasql.errors import UnsafePathError
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore


def delete_objects(store: ObjectStore, paths: Iterable[str]) -> None:
    """Delete data files below the root, then the log; what lies elsewhere is never touched.

    The table is out of the book by then, so a crash leaves objects that nobody refers to.
    """
    crash_point("before-purge")
    for path in paths:
        try:
            found = resolve_path(path)
        except UnsafePathError:
            continue
        if isinstance(found, RelativeKey):
            store.delete(found.key)
    for info in list(store.list_from(LOG_FOLDER)):
        store.delete(info.key)
