"""Imports as users call them: where the catalog is, what to go on with, on which engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from deltasql.catalog import migrations
from deltasql.catalog.rows import TableRow, TableState
from deltasql.client.imports import Imported, ImportOptions, TableImport
from deltasql.errors import SchemaMissingError, TableStateError
from deltasql.importer.engine import Engine, LocalEngine
from deltasql.importer.progress import Observer
from deltasql.runtime.connection import Connection
from deltasql.uri import CatalogUri

if TYPE_CHECKING:
    from deltasql.client.catalog import Catalog
    from deltasql.settings import Settings


@dataclass(frozen=True, slots=True)
class Runner:
    """What all imports of one call share: the engine, and who watches."""

    engine: Engine
    observe: Observer = lambda _: None


def import_one(
    connection: Connection, source: str, name: str, options: ImportOptions, runner: Runner
) -> Imported:
    """Import one table, or go on with it; see `TableImport.run`."""
    wanted = going_on(connection, name, options)
    return TableImport(connection, source, name, wanted, runner.engine, runner.observe).run()


def going_on(connection: Connection, name: str, options: ImportOptions) -> ImportOptions:
    """Return the options for a table that may be there.

    An import that has whole versions goes on behind them; a checkpoint is only to begin with.
    """
    if not (options.resume and options.checkpoint_only):
        return options
    row = connection.metastore.find_table(name)
    if row is None:
        return options
    has_versions = row.current_version >= row.first_version
    return replace(options, checkpoint_only=not has_versions)


def follow(connection: Connection, row: TableRow) -> TableRow:
    """Bring a read-only table to the head of its log; a table of SQL's own is there already.

    Where another reader takes in the same versions first, what is left is tried again.

    Raises:
        NotResumableError: the log is no longer the one that was imported.
    """
    # a reader waits for it: an index that is not there is not made now
    options = ImportOptions(resume=True, index=False)
    while row.state is TableState.READ_ONLY:
        runner = Runner(LocalEngine())
        try:
            return import_one(connection, row.location, row.full_name, options, runner).row
        except TableStateError:
            before, row = row, connection.metastore.table_by_id(row.table_id)
            if row.state is before.state and row.current_version <= before.current_version:
                raise
    return row


def database_bytes(connection: Connection) -> int:
    """Return how big the catalog's tables are now."""
    return int(connection.metastore.database.rows("database_size")[0][0] or 0)


def has_catalog(uri: CatalogUri) -> bool:
    """Tell whether a database holds a catalog, without making one.

    Raises:
        CatalogUnavailableError: the server does not answer.
    """
    from deltasql.client.connect import open_database  # noqa: PLC0415 (it imports the catalog)

    try:
        database = open_database(uri)
    except SchemaMissingError:
        return False
    try:
        return bool(migrations.status(database).applied)
    finally:
        database.close()


@contextmanager
def catalog_to_look_at(text: str, uri: CatalogUri, settings: Settings) -> Iterator[Catalog]:
    """Open the catalog that an import would go to; where there is none, an empty one for now."""
    from deltasql.client.connect import connect  # noqa: PLC0415 (it imports the catalog)

    with TemporaryDirectory(prefix="deltasql-dry-") as folder:
        there = text if has_catalog(uri) else f"deltasql://sqlite/{folder}/dry.db"
        allowed = replace(settings, sql=replace(settings.sql, schema="create_if_missing"))
        with connect(there, settings=allowed) as catalog:
            catalog.create_if_missing()
            yield catalog
