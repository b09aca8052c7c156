"""Connection: an open catalog, as everything below the API sees it; its stores and its user."""

from __future__ import annotations

import getpass
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deltasql.clock import Clock
from deltasql.database.port import Database
from deltasql.events import Sink, discard
from deltasql.forks import abandon, start_afresh_after_fork
from deltasql.metastore.leases import Leases
from deltasql.metastore.log_state import LogFiles
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.table_row import TableRow
from deltasql.runtime.ownership import Ownership
from deltasql.settings import Settings
from deltasql.storage.port import ObjectStore
from deltasql.storage.resolve import StoreOpener, open_store

StoreSettings = Mapping[str, Mapping[str, str]]


@dataclass(slots=True, weakref_slot=True)
class Stores:
    """Opens each store once; safe to use from many threads.

    `wrap` is for tests, which put faults in front of a store.
    """

    options: Mapping[str, str] | None = field(default=None, repr=False)
    settings: StoreSettings = field(default_factory=dict, repr=False)
    wrap: Callable[[ObjectStore], ObjectStore] | None = None
    _opened: dict[str, ObjectStore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Open the stores anew: their connections are the parent's."""
        for store in self._opened.values():
            abandon(store)
        self._opened = {}
        self._lock = threading.Lock()

    def at(self, location: str) -> ObjectStore:
        """Return the store at a location."""
        with self._lock:
            store = self._opened.get(location)
            if store is None:
                store = open_store(location, self.options, stores=self.settings)
                if self.wrap is not None:
                    store = self.wrap(store)
                self._opened[location] = store
            return store

    def opener(self, location: str) -> StoreOpener:
        """Return how another process opens the store at a location."""
        return StoreOpener.of(location, self.options, self.settings)

    def close(self) -> None:
        """Close all stores; one that is asked for later is opened again."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for store in opened:
            store.close()


@dataclass(frozen=True, slots=True)
class CommitUser:
    """What the history says of a commit: a name, and the client that it came from."""

    name: str | None = None
    client: str | None = None


def commit_user(database: Database, name: str | None, client: str | None) -> CommitUser:
    """Return who commits.

    A name that is given counts. Else it is the database login, where there is one: it was
    checked, the operating system's user was not. What the name does not say stands in the client.
    """
    login, system = database.login(), _system_user()
    if login is None:
        return CommitUser(name or system, client)
    user = name or login
    place = f"{system or 'unknown'}@{socket.gethostname()}"
    return CommitUser(user, client or (place if user == login else f"{place}, login {login}"))


def _system_user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


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
