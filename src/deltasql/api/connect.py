"""connect(uri): the one place that wires a database, the mirror, the stores and the settings."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deltasql.api.catalog import Catalog
from deltasql.api.session import LazySession, Session
from deltasql.clock import Clock, now_ms
from deltasql.database import migrations
from deltasql.database.port import Database
from deltasql.errors import ConfigError, SchemaMissingError
from deltasql.events import Sink, fan_out
from deltasql.metastore.registry import SqlCatalog, find_identity
from deltasql.runtime.connection import Connection, Stores, commit_user
from deltasql.settings import Settings
from deltasql.sinks import logging_sink
from deltasql.uri import CatalogUri, PostgresUri, parse_uri

if TYPE_CHECKING:
    from deltasql.storage.port import ObjectStore


def connect(
    uri: str | None = None,
    *,
    settings: Settings | None = None,
    storage_options: Mapping[str, str] | None = None,
    sink: Sink | None = None,
    committer: str | None = None,
    client: str | None = None,
    clock: Callable[[], int] | None = None,
    wrap_store: Callable[[ObjectStore], ObjectStore] | None = None,
) -> Catalog:
    """Open a catalog; without a URI, the one that DELTASQL_URI or deltasql.toml names.

    A catalog that is not there is made by the first call that creates something: `create_table`,
    `import_table`, or `create_if_missing`. Everything else raises SchemaMissingError then, and
    leaves nothing behind. With the setting sql.schema = "error", so does this call.

    `committer` is the name of the user in the history; without one it is the setting commit.user,
    the login of the database, or the operating system's user. `client` says where commits come
    from. `sink` takes the events; without one they go to the logger `deltasql`.
    `clock` (milliseconds) and `wrap_store` are for tests: time and faults from outside.

    Raises:
        BadUriError, ConfigError: the catalog is not named well.
        SchemaMissingError, SchemaOutdatedError: the database is not ready.
        CatalogUnavailableError: the database does not answer.
    """
    chosen = settings if settings is not None else Settings.load(os.environ, Path.cwd())
    text = uri or chosen.uri
    if not text:
        raise ConfigError(
            "No catalog is named.", hint="Give a URI, or set DELTASQL_URI or uri in deltasql.toml."
        )
    address = parse_uri(text)

    def open_session(*, may_create: bool) -> Session:
        metastore = _open_metastore(address, clock, may_create=may_create)
        user = commit_user(metastore.database, committer or chosen.commit.user or None, client)
        return Session(
            Connection(
                metastore,
                chosen,
                Stores(storage_options, chosen.stores, wrap_store),
                fan_out(sink if sink is not None else logging_sink()),
                user,
                Clock(clock or now_ms),
            )
        )

    may_create = chosen.sql.schema == "create_if_missing"
    lazy = LazySession(
        partial(open_session, may_create=False), partial(open_session, may_create=may_create)
    )
    if may_create:
        lazy.open_if_there()
    else:
        lazy.create()
    return Catalog(lazy)


def open_database(
    uri: CatalogUri, *, clock: Callable[[], int] | None = None, may_create: bool = False
) -> Database:
    """Open the database of a URI; its driver is loaded only now.

    Raises:
        SchemaMissingError: it is a file without a catalog, and none may be made there.
    """
    if isinstance(uri, PostgresUri):
        from deltasql.database.postgres import PostgresDatabase  # noqa: PLC0415 (heavy, one of two)

        return PostgresDatabase(uri.conninfo(), uri.schema, clock=clock)
    from deltasql.database.sqlite import SqliteDatabase  # noqa: PLC0415 (heavy)

    return SqliteDatabase(Path(uri.path), must_exist=not may_create, clock=clock)


def initialize(database: Database) -> tuple[migrations.Migration, ...]:
    """Bring a database to the newest schema and give the catalog its identity; safe to repeat."""
    database.create_namespace()
    return migrations.migrate(database, str(uuid.uuid4()), now=now_ms())


def _open_metastore(
    uri: CatalogUri, clock: Callable[[], int] | None, *, may_create: bool
) -> SqlCatalog:
    database = open_database(uri, clock=clock, may_create=may_create)
    try:
        found = find_identity(database)
        if found is not None:
            return SqlCatalog(database, found)
        try:
            migrations.require_current(database)
        except SchemaMissingError:
            if not may_create:
                raise
            initialize(database)
        return SqlCatalog(database)
    except BaseException:
        database.close()
        raise
