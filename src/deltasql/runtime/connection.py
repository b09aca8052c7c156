"""Connection: an open catalog, as everything below the API sees it."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.leases import Leases
from deltasql.catalog.log_files import LogFiles
from deltasql.catalog.rows import TableRow
from deltasql.clock import Clock
from deltasql.events import Sink, discard
from deltasql.runtime.ownership import Ownership
from deltasql.runtime.stores import Stores
from deltasql.runtime.user import CommitUser
from deltasql.settings import Settings
from deltasql.storage.port import ObjectStore


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(slots=True, weakref_slot=True)
class Connection:
    """The metastore and what surrounds it; safe to use from many threads.

    `emit` takes the events. Opening one starts no thread and asks no store.
    """

    metastore: SqlCatalog
    settings: Settings
    stores: Stores = field(default_factory=Stores)
    emit: Sink = discard
    user: CommitUser = field(default_factory=CommitUser)
    clock: Clock = field(default_factory=Clock)
    new_id: Callable[[], str] = _new_id
    leases: Leases = field(init=False)
    log_files: LogFiles = field(init=False)
    ownership: Ownership = field(init=False)

    def __post_init__(self) -> None:
        database = self.metastore.database
        lease_ms = int(self.settings.mirror.lease_ttl.total_seconds() * 1000)
        self.leases = Leases(database, worker_name(self.new_id()), ttl_ms=lease_ms)
        self.log_files = LogFiles(database)
        self.ownership = Ownership(self.metastore, self.clock.now_ms)

    @property
    def worker(self) -> str:
        """The name of this process among all that work on the catalog."""
        return self.leases.holder

    def now_ms(self) -> int:
        """Return the time of day in milliseconds."""
        return self.clock.now_ms()

    def store_of(self, row: TableRow) -> ObjectStore:
        """Return the store at a table's location, opened once."""
        return self.stores.at(row.location)

    def store_at(self, location: str) -> ObjectStore:
        """Return the store at a location, opened once."""
        return self.stores.at(location)

    def settings_of(self, row: TableRow) -> Settings:
        """Return the settings with the table's own properties considered."""
        return self.settings.for_table(row.properties) if row.properties else self.settings

    def check_settings(self, properties: Mapping[str, str]) -> None:
        """Refuse table properties that are settings of ours and make no sense.

        Raises:
            ConfigError: names the property and what it may be.
        """
        ours = ("deltasql.mirror.", "mirror.")
        self.settings.for_table({k: v for k, v in properties.items() if k.startswith(ours)})

    def close(self) -> None:
        """Close stores and database."""
        self.stores.close()
        self.metastore.database.close()


def worker_name(token: str) -> str:
    """Return a name that no other worker has, and by which people find the process."""
    return f"{socket.gethostname()}/{os.getpid()}/{token[:8]}"
