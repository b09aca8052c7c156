"""An import from the command line: one table or a lake, for real or only to look."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from deltasql.catalog.rows import TableRow, TableState
from deltasql.cli.app import App
from deltasql.cli.import_progress import Screen, Watch, screen_for
from deltasql.cli.import_told import (
    Told,
    compared,
    imported,
    previewed,
    skipped,
    tell_lake,
    tell_outcome,
)
from deltasql.client.catalog import Catalog
from deltasql.client.engines import ChosenEngine
from deltasql.client.import_call import ImportCall
from deltasql.client.import_face import Runner
from deltasql.client.import_names import name_of
from deltasql.client.imports import ImportOptions
from deltasql.client.lake import (
    LakeOutcome,
    LakeTable,
    each_table,
    is_past_import,
    options_in_lake,
)
from deltasql.errors import DeltaSqlError, NotResumableError, TableExistsError
from deltasql.importer.engine import LocalEngine
from deltasql.uri import parse_uri

Mode: TypeAlias = Literal["import", "full", "quick", "validate"]
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    source: str
    target: str | None
    name: str | None
    options: ImportOptions
    call: ImportCall
    mode: Mode
    is_sure: bool


@dataclass(frozen=True, slots=True)
class ImportRun:
    """Does what was asked for and says so; methods return the exit code."""

    app: App
    request: Request

    def one(self) -> int:
        """Import, preview or compare one table."""
        request = self.request
        name = request.name or self.app.catalog_uri().table or name_of(request.source)
        table = LakeTable("", request.source, name)
        self._look_first(table)
        with self._catalog() as catalog:
            if request.mode == "validate":  # before an engine is started for nothing
                catalog.imports.require(table.source, table.name)
            self._confirm(catalog, [table])
            try:
                with self._engine() as chosen, closing(screen_for(self.app.out)) as screen:
                    told = self._do(catalog, table, chosen, screen)
            except KeyboardInterrupt:
                return self._interrupted(catalog, [table])
        told.tell(self.app.out)
        return told.code

    def lake(self) -> int:
        """Import, preview or compare every table below a root."""
        with self.app.look() as catalog:
            lake = catalog.imports.look_below(self.request.source)
        tables = lake.tables
        self.app.out.note(f"{len(tables)} tables lie below {self.request.source}.")
        with self._catalog() as catalog:
            self._confirm(catalog, tables)
            outcomes: list[LakeOutcome[Told]] = []
            stopped = 0
            try:
                with self._engine() as chosen, closing(screen_for(self.app.out)) as screen:
                    for outcome in each_table(
                        tables, lambda table: self._of_lake(catalog, table, chosen, screen)
                    ):
                        outcomes.append(outcome)
                        screen.close()
                        tell_outcome(self.app.out, outcome)
            except KeyboardInterrupt:
                stopped = self._interrupted(catalog, tables[len(outcomes) :][:1])
        code = tell_lake(self.app.out, self.request.source, lake, outcomes)
        return stopped or code

    def _of_lake(
        self, catalog: Catalog, table: LakeTable, chosen: ChosenEngine, screen: Screen
    ) -> Told:
        found = catalog.imports.find(table.source, table.name)
        options = options_in_lake(found, self.request.options)
        if is_past_import(found, options):
            return skipped(table, "SQL writes its log itself")
        own = replace(self.request, options=options)
        return ImportRun(self.app, own)._do(catalog, table, chosen, screen)  # noqa: SLF001 (ours)

    def _do(self, catalog: Catalog, table: LakeTable, chosen: ChosenEngine, screen: Screen) -> Told:
        desk, request = catalog.imports, self.request
        if request.mode == "validate":
            self.app.out.note(f"{table.name}: Validating...")
            runner = Runner(chosen.engine)
            outcome = desk.validate(table.source, table.name, request.options, runner)
            return compared(table, outcome, accept=request.options.accept_differences)
        if request.mode != "import":
            runner = Runner(chosen.engine, Watch(table.name, screen))
            uri, quick = self.app.catalog_uri(), request.mode == "quick"
            accept = request.options.accept_differences
            preview = desk.preview(table, request.options, runner, uri, quick=quick)
            return previewed(preview, accept=accept)
        watch = Watch(table.name, screen, desk.database_bytes)
        with self._kept_told(catalog, table):
            done = desk.run(table.source, table.name, request.options, Runner(chosen.engine, watch))
        return imported(catalog, done, watch.clock() - watch.started, self._next(done.row))

    def _look_first(self, table: LakeTable) -> None:
        """Make no catalog for a source that cannot be imported anyway."""
        if self.request.mode == "import" and not self.app.has_catalog():
            with self.app.look() as catalog:
                runner, uri = Runner(LocalEngine()), self.app.catalog_uri()
                catalog.imports.preview(table, self.request.options, runner, uri, quick=True)

    def _catalog(self) -> AbstractContextManager[Catalog]:
        """Only an import makes a catalog where there is none; a preview does not need one."""
        if self.request.mode == "import":
            return self.app.connect_to_create()
        return self.app.connect() if self.request.mode == "validate" else self.app.look()

    @contextmanager
    def _engine(self) -> Iterator[ChosenEngine]:
        if self.request.mode == "quick":  # a listing needs no engine
            yield ChosenEngine(LocalEngine())
            return
        with self.request.call.choose() as chosen:
            if chosen.note:
                self.app.out.note(chosen.note)
            yield chosen

    def _confirm(self, catalog: Catalog, tables: list[LakeTable]) -> None:
        """Ask before tables are replaced."""
        if self.request.mode != "import" or not self.request.options.force:
            return
        found = [catalog.imports.find(table.source, table.name) for table in tables]
        names = [f"{row.full_name} (version {row.current_version})" for row in found if row]
        if names:
            question = f"Replace {', '.join(names)} by a new import?"
            self.app.confirm(question, is_sure=self.request.is_sure)

    @contextmanager
    def _kept_told(self, catalog: Catalog, table: LakeTable) -> Iterator[None]:
        """Let an error say what stays of the import that it ends."""
        try:
            yield
        except (TableExistsError, NotResumableError):
            raise
        except DeltaSqlError as error:
            kept = self._kept(catalog, table)
            if kept:
                error.advice = f"{error.advice} {kept}".strip()
            raise

    def _kept(self, catalog: Catalog, table: LakeTable) -> str:
        try:
            row = catalog.imports.find(table.source, table.name)
        except DeltaSqlError:
            return ""  # the catalog is gone, or the place is not this import's
        if row is None or row.state is not TableState.IMPORTING:
            return ""
        if row.current_version < row.first_version:
            return ""  # nothing was loaded yet
        return (
            f"Versions {row.oldest_version} to {row.current_version} of {row.full_name} are kept: "
            f"`{self._again(table, '--resume')}` goes on, "
            f"`{self._command('drop', row.full_name)}` takes them back."
        )

    def _interrupted(self, catalog: Catalog, tables: list[LakeTable]) -> int:
        """Say in one line what is there."""
        for table in tables:
            row = catalog.imports.find(table.source, table.name)
            if row is None or self.request.mode != "import":
                told = f"nothing of {table.name} was changed."
            elif row.state is TableState.IMPORTING:
                told = self._kept(catalog, table) or f"{table.name} has no whole version yet."
            else:
                again = self._again(table, "--resume")
                told = f"{row.full_name} is {row.state} at version {row.current_version}; `{again}`"
                told += " brings what is missing."
            self.app.out.note(f"interrupted: {told}")
        return _INTERRUPTED

    def _next(self, row: TableRow) -> list[str]:
        table = LakeTable("", self.request.source, row.full_name)
        source = replace(table, source=row.location)
        return [
            self._command("show", row.full_name),
            self._again(source, "--resume"),
            self._command("cutover", row.full_name),
        ]

    def _again(self, table: LakeTable, option: str) -> str:
        parts = ["deltasql", "import", table.source, *self._target(), "--name", table.name]
        named = self.app.catalog_uri().table == table.name or name_of(table.source) == table.name
        return shlex.join([*(parts[:-2] if named else parts), option])

    def _command(self, *parts: str) -> str:
        target = self._target()
        return shlex.join(["deltasql", *(["-u", *target] if target else []), *parts])

    def _target(self) -> list[str]:
        """Return the target as it may be shown: without a password."""
        return [str(parse_uri(self.request.target))] if self.request.target else []
