"""Where imports into one catalog are asked for: `catalog.imports`."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.registry import NewTable
from deltasql.catalog.rows import TableRow, split_name
from deltasql.client.dry_run import DryRun, Preview, rates_of
from deltasql.client.import_face import Runner, database_bytes, going_on, import_one
from deltasql.client.import_target import existing
from deltasql.client.imports import Imported, ImportOptions
from deltasql.client.lake import Lake, LakeTable, look_below
from deltasql.client.opening import LazySession
from deltasql.client.source_reader import reader_of
from deltasql.client.validate import validate_table
from deltasql.errors import BadArgumentError, TableNotFoundError
from deltasql.importer.engine import LocalEngine
from deltasql.parity.differences import Validation
from deltasql.runtime.connection import Connection
from deltasql.storage.resolve import canonical_location, location_key
from deltasql.uri import CatalogUri


@dataclass(frozen=True, slots=True)
class ImportDesk:
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
        wanted = going_on(self.connection, table.name, options)
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
