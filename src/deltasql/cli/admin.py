"""Commands for whoever runs a catalog: db, unfence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from deltasql.cli.app import App, Command, command, parse_pairs, pass_app
from deltasql.cli.arguments import dry_run_option, yes_option

_DIFFERENCE = 3


@click.group()
def db() -> None:
    """Create, migrate or look at the catalog's database."""


@db.command(cls=Command, example="deltasql db init -u deltasql://sqlite/metadata.db")
@pass_app
def init(app: App) -> None:
    """Create the catalog's tables where they are missing; safe to repeat."""
    from deltasql.client import init_database

    _tell_applied(app, init_database(app.catalog_uri()))


@db.command(cls=Command, example="deltasql db migrate --dry-run")
@dry_run_option
@pass_app
def migrate(app: App, dry_run: bool) -> None:
    """Bring the catalog's tables to this version of deltasql; safe to repeat."""
    from deltasql.client import database_status, migrate_database

    if dry_run:
        app.out.rows(_steps(database_status(app.catalog_uri())))
    else:
        _tell_applied(app, migrate_database(app.catalog_uri()))


@db.command(cls=Command, example="deltasql db status -o json")
@pass_app
def status(app: App) -> None:
    """Tell which migrations the database has and which it lacks.

    Leaves with 3 where one is missing.
    """
    from deltasql.client import database_status

    found = database_status(app.catalog_uri())
    app.out.rows(_steps(found))
    if found.missing:
        raise click.exceptions.Exit(_DIFFERENCE)


def _tell_applied(app: App, steps: Any) -> None:
    names = [f"{step.version} {step.name}" for step in steps]
    text = f"Applied {', '.join(names)}." if names else "The catalog is up to date."
    app.out.done(text, {"applied": names})


def _steps(found: Any) -> list[dict[str, Any]]:
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
def unfence(
    app: App, location: str, pairs: tuple[str, ...], is_sure: bool, dry_run: bool
) -> None:
    """Free a log for ordinary Delta writers when its database is lost.

    Reads and writes the log alone. Where the database still lives use detach.
    """
    from deltasql import client

    options = parse_pairs(pairs, "--option") or None
    if not dry_run:
        question = f"Remove the fence from {location}? A living catalog will find its log changed."
        app.confirm(question, is_sure=is_sure)
    version = client.unfence(location, storage_options=options, dry_run=dry_run)
    done = "would be" if dry_run else "was"
    facts = {"location": location, "version": version}
    app.out.done(f"The fence of {location} {done} removed by version {version}.", facts)
