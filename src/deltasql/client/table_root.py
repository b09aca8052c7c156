"""Is the folder of a local table there? A disk that is not mounted must not become a new folder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from deltasql.catalog.rows import TableRow
from deltasql.errors import ObjectNotFoundError, StorageUnavailableError
from deltasql.log.owner import OWNER_KEY
from deltasql.storage.location import parse_location
from deltasql.storage.port import ObjectStore


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
