"""Commands about Spark on this machine."""

from __future__ import annotations

import click

from deltasql.cli.app import App, Command, pass_app


@click.group()
def spark() -> None:
    """Make Spark start faster."""


@spark.command(cls=Command, example="deltasql spark prepare")
@pass_app
def prepare(app: App) -> None:
    """Run Spark once and keep its classes in the cache, from which later sessions start faster."""
    from deltasql.jobs.session import require_spark

    require_spark()
    from deltasql.spark.prepare import prepare as make_archive

    made = make_archive()
    row = {"archive": str(made.path), "bytes": made.bytes}
    app.out.done(f"Spark's classes are kept in {made.path}, {made.bytes} bytes.", row)
