"""Does every store of a catalog answer? One look at each, with the credentials at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deltasql.catalog.rows import TableRow
from deltasql.errors import DeltaSqlError
from deltasql.mirror.store_watch import ask_stores, stores_of
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
    stores = stores_of(rows)
    answers = ask_stores(stores, open_store)
    return [StoreCheck(store, stores[store].full_name, answers[store]) for store in sorted(stores)]
