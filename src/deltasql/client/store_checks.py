"""Does every store of a catalog answer? One look at each, with the credentials at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deltasql.catalog.rows import TableRow
from deltasql.errors import DeltaSqlError, ObjectNotFoundError, StorageUnavailableError
from deltasql.log.owner import OWNER_KEY
from deltasql.mirror.breaker import store_of
from deltasql.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What a store answered when it was asked for the owner marker of `table`."""

    store: str
    table: str
    error: DeltaSqlError | None


def check_stores(
    rows: Iterable[TableRow], open_store: Callable[[TableRow], ObjectStore]
) -> list[StoreCheck]:
    """Ask each store once, by one of its tables; a local folder is a store of its own."""
    asked = {store_of(row.location): row for row in rows}
    return [
        StoreCheck(store, row.full_name, _ask(row, open_store))
        for store, row in sorted(asked.items())
    ]


def _ask(row: TableRow, open_store: Callable[[TableRow], ObjectStore]) -> DeltaSqlError | None:
    try:
        open_store(row).head(OWNER_KEY)
    except ObjectNotFoundError:
        if row.mirrored_through < 0:
            return None  # nothing was mirrored yet, and so nothing is missing
        return StorageUnavailableError(
            f"The owner marker of {row.full_name} is not at {row.location}.",
            hint="Check that the disk is mounted and that the location is the right one.",
            table=row.full_name,
        )
    except DeltaSqlError as error:
        return error
    return None
