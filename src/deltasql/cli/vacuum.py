"""The command that deletes data files: vacuum."""

from __future__ import annotations

from datetime import timedelta

import click

from deltasql.cli.app import App, command, pass_app
from deltasql.cli.arguments import Duration, table_argument, yes_option


@command(example="deltasql vacuum orders --delete --yes")
@table_argument
@click.option(
    "--retain",
    type=Duration(),
    help="Keep what versions of this time need, such as 240h or 14d.  "
    "[default: delta.deletedFileRetentionDuration]",
)
@click.option("--delete", "is_delete", is_flag=True, help="Delete; without it, files are listed.")
@click.option("--no-orphans", is_flag=True, help="Do not list the folder for leftovers.")
@click.option(
    "--allow-short-retention", is_flag=True, help="Accept a --retain shorter than the table's."
)
@yes_option
@pass_app
def vacuum(
    app: App,
    *,
    table: str | None,
    retain: timedelta | None,
    is_delete: bool,
    no_orphans: bool,
    allow_short_retention: bool,
    is_sure: bool,
) -> None:
    """Delete data files that nothing needs any more.

    Those of versions past their retention, and leftovers of failed writes. Lists them unless
    --delete is given. Versions whose files are gone can be neither read nor restored.
    """
    name = app.table_name(table)
    if is_delete:
        app.confirm(f"Delete files of {name} for good?", is_sure=is_sure)
    with app.connect() as catalog:
        report = catalog.table(name).vacuum(
            dry_run=not is_delete,
            retain=retain,
            allow_short_retention=allow_short_retention,
            orphans=not no_orphans,
        )
    rows = [
        {"table": name, "key": one.key, "bytes": one.size, "is_orphan": one.is_orphan}
        for one in report
    ]
    if rows or app.out.format != "text":
        app.out.rows(rows, ["key", "bytes", "is_orphan"])
    done = "were deleted" if is_delete else "would be deleted"
    app.out.note(f"{len(rows)} files of {name}, {report.bytes} bytes, {done}.")
