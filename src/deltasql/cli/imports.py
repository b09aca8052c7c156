"""Commands that bring tables under SQL: import and cutover."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import click

from deltasql.api.catalog import Catalog
from deltasql.api.imports import ImportCall, Runner
from deltasql.cli.app import App, Command, command, parse_pairs, pass_app
from deltasql.cli.arguments import table_argument, yes_option
from deltasql.cli.import_progress import Screen, Watch, screen_for
from deltasql.cli.import_report import (
    ImportReport,
    compared,
    imported,
    previewed,
    skipped,
    tell_lake,
    tell_outcome,
)
from deltasql.errors import BadArgumentError, DeltaSqlError, NotResumableError, TableExistsError
from deltasql.imports.engines.local import ChosenEngine, LocalEngine
from deltasql.imports.job import ImportOptions
from deltasql.imports.lake import (
    LakeOutcome,
    LakeTable,
    each_table,
    is_past_import,
    options_in_lake,
)
from deltasql.imports.target import name_of
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.uri import parse_uri

Mode: TypeAlias = Literal["import", "full", "quick", "validate"]
_INTERRUPTED = 130

_EXAMPLE = """\
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders --dry-run
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders --resume
deltasql import --lake s3://bucket/lake deltasql://sqlite/metadata.db"""

# What only makes sense where something is imported.
_LOADING = (
    "resume",
    "force",
    "skip_validation",
    "checkpoint_only",
    "from_version",
    "up_to_version",
    "dry_run",
)


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
            outcomes: list[LakeOutcome[ImportReport]] = []
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
    ) -> ImportReport:
        found = catalog.imports.find(table.source, table.name)
        options = options_in_lake(found, self.request.options)
        if is_past_import(found, options):
            return skipped(table, "SQL writes its log itself")
        own = replace(self.request, options=options)
        return ImportRun(self.app, own)._do(catalog, table, chosen, screen)  # noqa: SLF001 (ours)

    def _do(
        self, catalog: Catalog, table: LakeTable, chosen: ChosenEngine, screen: Screen
    ) -> ImportReport:
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


class ImportCommand(Command):
    """`--dry-run` may stand alone before the source, which is not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a lone --dry-run its value."""
        end = args.index("--") if "--" in args else len(args)
        given = ["--dry-run=full" if word == "--dry-run" else word for word in args[:end]]
        return super().parse_args(ctx, given + args[end:])


@click.command("import", cls=ImportCommand, example=_EXAMPLE)
@click.argument("source", metavar="SOURCE_TABLE_URI")
@click.argument("target", metavar="[TARGET_DB_URI]", required=False)
@click.option("--name", help="Call the table so.  [default: that of the URI, or its folder]")
@click.option("--lake", is_flag=True, help="The source is a root: import all tables below it.")
@click.option(
    "--dry-run",
    type=click.Choice(["full", "quick"]),
    metavar="[=quick]",
    help="Read and check everything, tell counts, time and size, change nothing; "
    "`=quick` only lists the log.",
)
@click.option("--resume", is_flag=True, help="Go on with an import, or follow its source.")
@click.option("--force", is_flag=True, help="Replace the table that has the name or the place.")
@click.option("--from-version", type=click.IntRange(min=0), help="Keep no version before this one.")
@click.option("--up-to-version", type=click.IntRange(min=0), help="Import no later version.")
@click.option(
    "--checkpoint-only", is_flag=True, help="Begin with the newest checkpoint: skip the history."
)
@click.option("--skip-validation", is_flag=True, help="Do not compare with the source afterwards.")
@click.option("--validate-only", is_flag=True, help="Compare an imported table with its source.")
@click.option("--accept-differences", is_flag=True, help="Take what differs from the source.")
@click.option("--lenient", is_flag=True, help="Accept a log that breaks the letter of Delta.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "local"]),
    default="auto",
    show_default=True,
    help="Who reads the log: Spark, or this process.",
)
@click.option("--master", metavar="URL", help="Spark's master, such as local[4].")
@click.option("--conf", "conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark.")
@yes_option
@pass_app
def import_(app: App, /, *, source: str, target: str | None, **given: Any) -> None:
    """Import existing Delta tables with their history.

    The table stays where it is and its log is only read. It is read-only in SQL afterwards, until
    `deltasql cutover` lets SQL take over; --resume follows a source that others still write.

    Leaves with 3 where the import differs from its source, with 5 where the source is damaged.
    With --lake it leaves with the code of the first table that failed; the others are imported.
    """
    _refuse_contradictions(given)
    if target is not None:
        if app.uri not in (None, target):
            raise BadArgumentError("Give the target as an argument or by --uri, not both.")
        app.uri = target
    from deltasql.api.imports import ImportCall
    from deltasql.imports.job import ImportOptions

    options = ImportOptions(
        up_to_version=given["up_to_version"],
        from_version=given["from_version"],
        checkpoint_only=given["checkpoint_only"],
        lenient=given["lenient"],
        resume=given["resume"],
        force=given["force"],
        validate=not given["skip_validation"],
        accept_differences=given["accept_differences"],
    )
    call = ImportCall(given["engine"], given["master"], parse_pairs(given["conf"], "--conf"))
    request = Request(source, target, given["name"], options, call, _mode(given), given["is_sure"])
    code = ImportRun(app, request).lake() if given["lake"] else ImportRun(app, request).one()
    raise click.exceptions.Exit(code)


@command(example="deltasql cutover orders")
@table_argument
@click.option("--no-fence", is_flag=True, help="Let other writers go on, at their own risk.")
@click.option(
    "--follow", is_flag=True, help="Take along what others have committed since the import."
)
@pass_app
def cutover(app: App, *, table: str | None, no_fence: bool, follow: bool) -> None:
    """Let SQL take over the log of an imported table.

    A commit of ours wins the log's next number; what others commit meanwhile is imported first.
    From then on the table takes commits through SQL only, and the fence keeps other writers out.
    `deltasql detach` gives it back.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        done = catalog.cutover(name, fence=not no_fence, follow=follow)
    facts = {
        "table": done.table,
        "version": done.version,
        "state": str(done.row.state),
        "fenced": not no_fence,
        "races_lost": done.lost,
    }
    lost = f", after {done.lost} races lost to other writers" if done.lost else ""
    app.out.done(f"SQL has taken over {done.table} with version {done.version}{lost}.", facts)
    app.out.note(f"`deltasql detach {done.table}` gives it back.")


def _mode(given: dict[str, Any]) -> Mode:
    if given["validate_only"]:
        return "validate"
    found: Mode = given["dry_run"] or "import"
    return found


def _refuse_contradictions(given: dict[str, Any]) -> None:
    if given["resume"] and given["force"]:
        raise BadArgumentError(
            "Give --resume or --force, not both.",
            hint="--resume goes on with the table that is there, --force replaces it.",
        )
    if given["checkpoint_only"] and given["from_version"] is not None:
        raise BadArgumentError(
            "Give --from-version or --checkpoint-only, not both.",
            hint="--checkpoint-only begins the history at the newest checkpoint.",
        )
    if given["skip_validation"] and given["accept_differences"]:
        raise BadArgumentError(
            "--skip-validation finds no differences that --accept-differences could take."
        )
    if given["validate_only"]:
        for name in _LOADING:
            if given[name] is not None and given[name] is not False:  # version 0 is one
                told = f"--{name.replace('_', '-')}"
                raise BadArgumentError(f"--validate-only imports nothing: leave out {told}.")
    if given["lake"]:
        for name in ("name", "up_to_version"):
            if given[name] is not None:
                told = f"--{name.replace('_', '-')}"
                raise BadArgumentError(f"{told} is for one table; --lake imports many.")
