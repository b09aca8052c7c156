"""Commands for whoever runs a catalog: db, unfence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App, Command, command, parse_pairs, pass_app
from deltasql.cli.arguments import Duration, dry_run_option, yes_option

if TYPE_CHECKING:
    from deltasql.database.migrations import Migration, SchemaStatus
    from deltasql.database.port import Database
    from deltasql.maintenance.unfence import Unfenced

_DIFFERENCE = 3


@click.group()
def db() -> None:
    """Create, migrate or look at the catalog's database."""


@db.command(cls=Command, example="deltasql db init -u deltasql://sqlite/metadata.db")
@pass_app
def init(app: App) -> None:
    """Create the catalog's tables where they are missing; safe to repeat."""
    from deltasql.api.connect import initialize

    with _database(app, may_create=True) as database:
        _tell_applied(app, initialize(database))


@db.command(cls=Command, example="deltasql db migrate --dry-run")
@dry_run_option
@pass_app
def migrate(app: App, dry_run: bool) -> None:
    """Bring the catalog's tables to this version of deltasql; safe to repeat."""
    from deltasql.api.connect import initialize
    from deltasql.database import migrations

    with _database(app) as database:
        found = migrations.require_catalog(database)
        if dry_run:
            app.out.rows(_steps(found))
        else:
            _tell_applied(app, initialize(database))


@db.command(cls=Command, example="deltasql db status -o json")
@pass_app
def status(app: App) -> None:
    """Tell which migrations the database has and which it lacks.

    Leaves with 3 where one is missing.
    """
    from deltasql.database import migrations

    with _database(app) as database:
        found = migrations.require_catalog(database)
    app.out.rows(_steps(found))
    if found.missing:
        raise click.exceptions.Exit(_DIFFERENCE)


@db.command(cls=Command, example="deltasql db forget orders --older-than 365d --yes")
@click.argument("table", required=False)
@click.option(
    "--older-than", type=Duration(), required=True, help="How long versions are kept, as 365d."
)
@dry_run_option
@yes_option
@pass_app
def forget(
    app: App, *, table: str | None, older_than: timedelta, dry_run: bool, is_sure: bool
) -> None:
    """Forget old versions of one table or all: rows and payloads in SQL.

    Only what is no longer in the log (see `deltasql mirror cleanup`). The table's state stays;
    forgotten versions can be neither read nor restored.
    """
    with app.connect() as catalog:
        names = [table] if table else [info.name for info in catalog.tables()]
        if not dry_run:
            app.confirm(f"Forget old versions of {', '.join(names)}?", is_sure=is_sure)
        plans = {name: catalog.forget_history(name, older_than, dry_run=dry_run) for name in names}
    app.out.rows(
        {"table": name, "versions": plan.versions, "oldest": plan.floor, "done": not dry_run}
        for name, plan in plans.items()
    )


@contextmanager
def _database(app: App, *, may_create: bool = False) -> Iterator[Database]:
    from deltasql.api.connect import open_database

    database = open_database(app.catalog_uri(), may_create=may_create)
    try:
        yield database
    finally:
        database.close()


def _tell_applied(app: App, steps: Sequence[Migration]) -> None:
    names = [f"{step.version} {step.name}" for step in steps]
    text = f"Applied {', '.join(names)}." if names else "The catalog is up to date."
    app.out.done(text, {"applied": names})


def _steps(found: SchemaStatus) -> list[dict[str, Any]]:
    have = [
        {
            "version": step.version,
            "name": step.name,
            "state": "applied",
            "applied_at": datetime.fromtimestamp(step.applied_at / 1000, UTC),
        }
        for step in found.applied
    ]
    lacking = [
        {"version": step.version, "name": step.name, "state": "missing"} for step in found.missing
    ]
    return have + lacking


@command(example="deltasql unfence s3://bucket/orders --yes")
@click.argument("location")
@click.option("--option", "pairs", metavar="KEY=VALUE", multiple=True, help="A storage option.")
@yes_option
@dry_run_option
@pass_app
def unfence(app: App, location: str, pairs: tuple[str, ...], is_sure: bool, dry_run: bool) -> None:
    """Free a log for ordinary Delta writers when its database is lost.

    Reads and writes the log alone. Where the database still lives use detach.
    """
    import deltasql

    options = parse_pairs(pairs, "--option") or _store_options(app, location)
    if not dry_run:
        question = f"Remove the fence from {location}? A living catalog will find its log changed."
        app.confirm(question, is_sure=is_sure)
    found = deltasql.unfence(location, storage_options=options, dry_run=dry_run)
    app.out.done(_tell_fence(found, dry_run=dry_run), asdict(found))


def _store_options(app: App, location: str) -> Mapping[str, str] | None:
    stores = app.settings().stores
    fitting = [prefix for prefix in stores if location.startswith(prefix)]
    return stores[max(fitting, key=len)] if fitting else None


def _tell_fence(found: Unfenced, *, dry_run: bool) -> str:
    if not found.was_fenced:
        return f"{found.location} has no fence at version {found.version}."
    if dry_run:
        return f"The fence of {found.location} would be removed by version {found.version + 1}."
    return f"The fence of {found.location} was removed by version {found.written_version}."
