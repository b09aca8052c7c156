"""Who reads a source: the store that is open here, or a way to open it in another process."""

from __future__ import annotations

from deltasql.client.session import Session
from deltasql.importer.engine import Engine, LocalEngine
from deltasql.importer.tasks import LogReader
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import StoreOpener


def reader_of(
    session: Session, engine: Engine, store: ObjectStore, *, lenient: bool = False
) -> LogReader:
    """Return what does the tasks of an engine on the log of a store."""
    if engine.name == LocalEngine.name:
        return LogReader(lambda: store, lenient)
    opener = StoreOpener.of(store.uri, session.storage_options, session.settings.stores)
    return LogReader(opener, lenient)
