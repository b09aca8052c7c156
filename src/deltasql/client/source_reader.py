"""Who reads a source: the store that is open here, or a way to open it in another process."""

from __future__ import annotations

from deltasql.client.session import Session
from deltasql.importer.engine import Engine, LocalEngine
from deltasql.importer.tasks import LogReader
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import StoreOpener


def reader_of(
    session: Session, engine: Engine, store: ObjectStore, *, lenient: bool = False
) -> LogReader:
    """Return what does the tasks of an engine on the log of a store."""
    opener = StoreOpener.of(store.uri, session.storage_options, session.settings.stores)
    if not isinstance(engine, LocalEngine):
        return LogReader(opener, lenient)
    # what a caller put around its store is not in other processes, nor is what memory holds
    is_near = session.wrap_store is not None or isinstance(store, MemoryStore)
    return LogReader(lambda: store, lenient, elsewhere=None if is_near else opener)
