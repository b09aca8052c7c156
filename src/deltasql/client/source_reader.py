"""Who reads a source: the store that is open here, or a way to open it in another process."""

from __future__ import annotations

from deltasql.importer.engine import Engine, LocalEngine
from deltasql.importer.tasks import LogReader
from deltasql.runtime.connection import Connection
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore


def reader_of(
    connection: Connection, engine: Engine, store: ObjectStore, *, lenient: bool = False
) -> LogReader:
    """Return what does the tasks of an engine on the log of a store."""
    opener = connection.stores.opener(store.uri)
    if not isinstance(engine, LocalEngine):
        return LogReader(opener, lenient)
    # what a caller put around its store is not in other processes, nor is what memory holds
    is_near = connection.stores.wrap is not None or isinstance(store, MemoryStore)
    return LogReader(lambda: store, lenient, elsewhere=None if is_near else opener)
