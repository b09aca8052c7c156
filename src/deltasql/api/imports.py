"""Imports as users call them: `catalog.imports`, a dry run, one table or a lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from deltasql.api.session import LazySession
from deltasql.database import migrations
from deltasql.errors import (
    BadArgumentError,
    SchemaMissingError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.imports.engines.local import (
    ChosenEngine,
    Engine,
    EngineKind,
    LocalEngine,
    choose_engine,
)
from deltasql.imports.job import Imported, ImportOptions, TableImport, reader_of
from deltasql.imports.lake import Lake, LakeTable, look_below
from deltasql.imports.load.loader import Observer
from deltasql.imports.preview import DryRun, Preview, rates_of
from deltasql.imports.target import existing, name_of
from deltasql.imports.validate.differences import Validation
from deltasql.imports.validate.validator import validate_table
from deltasql.metastore.table_row import NewTable, TableRow, TableState, split_name
from deltasql.runtime.connection import Connection
from deltasql.storage.resolve import canonical_location, location_key
from deltasql.uri import CatalogUri

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog
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
    wanted = resume_options(connection, name, options)
    return TableImport(connection, source, name, wanted, runner.engine, runner.observe).run()


def resume_options(connection: Connection, name: str, options: ImportOptions) -> ImportOptions:
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
    return int(connection.metastore.database.fetch_all("database_size")[0][0] or 0)


def has_catalog(uri: CatalogUri) -> bool:
    """Tell whether a database holds a catalog, without making one.

    Raises:
        CatalogUnavailableError: the server does not answer.
    """
    from deltasql.api.connect import open_database  # noqa: PLC0415 (it imports the catalog)

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
    from deltasql.api.connect import connect  # noqa: PLC0415 (it imports the catalog)

    with TemporaryDirectory(prefix="deltasql-dry-") as folder:
        there = text if has_catalog(uri) else f"deltasql://sqlite/{folder}/dry.db"
        allowed = replace(settings, sql=replace(settings.sql, schema="create_if_missing"))
        with connect(there, settings=allowed) as catalog:
            catalog.create_if_missing()
            yield catalog


@dataclass(frozen=True, slots=True)
class ImportCall:
    """On which engine imports run, and who watches them."""

    engine: EngineKind = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    on_progress: Observer | None = None

    def choose(self) -> ChosenEngine:
        """Return the engine; the caller closes it."""
        return choose_engine(self.engine, master=self.master, conf=self.conf)

    def run(
        self, connection: Connection, source: str, name: str | None, options: Mapping[str, Any]
    ) -> Imported:
        """Import one table with an engine of its own."""
        wanted = read_options(options)
        with self.choose() as chosen:
            runner = Runner(chosen.engine, self.on_progress or (lambda _: None))
            return import_one(connection, source, name or name_of(source), wanted, runner)


def read_options(given: Mapping[str, Any]) -> ImportOptions:
    """Return the options by their names.

    Raises:
        BadArgumentError: one is unknown.
    """
    known = {one.name for one in fields(ImportOptions)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise BadArgumentError(
            f"An import has no option {unknown[0]}.", hint=f"It has {', '.join(sorted(known))}."
        )
    return ImportOptions(**given)


@dataclass(frozen=True, slots=True)
class CatalogImports:
    """Imports, previews and comparisons, one table at a time; the caller has the engine."""

    lazy: LazySession

    @property
    def connection(self) -> Connection:
        """The open catalog."""
        return self.lazy.session.connection

    def run(self, source: str, name: str, options: ImportOptions, runner: Runner) -> Imported:
        """Import one table, or go on with it."""
        return import_one(self.lazy.create().connection, source, name, options, runner)

    def preview(
        self,
        table: LakeTable,
        options: ImportOptions,
        runner: Runner,
        uri: CatalogUri,
        *,
        quick: bool,
    ) -> Preview:
        """Say what the import of a table would do; `uri` names the catalog that it is meant for."""
        wanted = resume_options(self.connection, table.name, options)
        rates = rates_of(uri, runner.engine)
        run = DryRun(
            self.connection, table.source, table.name, wanted, runner.engine, rates, runner.observe
        )
        return run.quick() if quick else run.whole()

    def validate(
        self,
        source: str,
        name: str,
        options: ImportOptions | None = None,
        runner: Runner | None = None,
    ) -> Validation:
        """Read the source of an imported table again and compare, in this process by default.

        Raises:
            TableNotFoundError: no import has this name or place.
            BadArgumentError: the table came from elsewhere, or is no import any more.
        """
        options, runner = options or ImportOptions(), runner or Runner(LocalEngine())
        row = self.require(source, name)
        store = self.connection.store_of(row)
        reader = reader_of(self.connection, runner.engine, store, lenient=options.lenient)
        accept = options.accept_differences
        return validate_table(self.connection, row.full_name, runner.engine, reader, accept=accept)

    def require(self, source: str, name: str) -> TableRow:
        """Return the table that was imported from a source.

        Raises:
            TableNotFoundError: no import has this name or place.
            BadArgumentError: the table came from elsewhere.
        """
        row = self.find(source, name)
        if row is None:
            raise TableNotFoundError(f"There is no import of {source} to compare with it.")
        place = canonical_location(source)
        if row.location_key != location_key(place):
            raise BadArgumentError(f"Table {row.full_name} came from {row.location}, not {place}.")
        return row

    def find(self, source: str, name: str) -> TableRow | None:
        """Return the table that an import would go on with or replace, if there is one."""
        namespace, short = split_name(name)
        place = canonical_location(source)
        return existing(self.connection, NewTable("", namespace, short, place, location_key(place)))

    def look_below(self, root: str) -> Lake:
        """Return every Delta table below a root, with a name for each."""
        return look_below(self.connection, root)

    def database_bytes(self) -> int:
        """Return how big the catalog is now."""
        return database_bytes(self.connection)
