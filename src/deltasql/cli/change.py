"""Commands that commit a new version or delete data files: alter, compact, restore, detach,
vacuum.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from deltasql.cli.app import App, command, parse_pairs, pass_app
from deltasql.cli.arguments import (
    Duration,
    Size,
    at_options,
    check_at,
    dry_run_option,
    parse_column,
    table_argument,
    warn_of_lag,
    where_option,
    yes_option,
)
from deltasql.errors import BadArgumentError

if TYPE_CHECKING:
    from deltasql.api.table import Table
    from deltasql.metastore.snapshot.snapshot import Snapshot


@command(example="deltasql alter orders --add note:string --set delta.appendOnly=true")
@table_argument
@click.option("--add", "columns", metavar="NAME:TYPE", multiple=True, help="Add a column.")
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="Set a property.")
@click.option("--unset", "keys", metavar="KEY", multiple=True, help="Remove a property.")
@pass_app
def alter(
    app: App,
    table: str | None,
    columns: tuple[str, ...],
    pairs: tuple[str, ...],
    keys: tuple[str, ...],
) -> None:
    """Add columns to a table or change its properties."""
    if not (columns or pairs or keys):
        raise BadArgumentError("Nothing to alter: give --add, --set or --unset.")
    name = app.table_name(table)
    with app.connect() as catalog:
        version = catalog.table(name).alter(
            add=[parse_column(column) for column in columns],
            properties=parse_pairs(pairs, "--set"),
            unset=list(keys),
        )
        warn_of_lag(app, catalog, name)
    app.out.done(f"{name} is at version {version}.", {"table": name, "version": version})


@command(example="deltasql compact orders --where \"day < '2026-01-01'\" --target-size 256MB")
@table_argument
@where_option
@click.option("--target-size", type=Size(), help="How large files should become.")
@dry_run_option
@pass_app
def compact(
    app: App, table: str | None, where: str | None, target_size: int | None, dry_run: bool
) -> None:
    """Rewrite a table's small files into larger ones.

    The rows stay the same. The filter may name partition columns only.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        found = catalog.table(name)
        before = found.version
        if dry_run:
            files, size = _compactable(found, where, target_size)
            facts = {"table": name, "version": before, "files": files, "bytes": size}
            app.out.done(f"{files} files of {name}, {size} bytes, would be rewritten.", facts)
            return
        version = found.compact(where=where, target_size=target_size)
        warn_of_lag(app, catalog, name)
    done = "was compacted" if version != before else "has nothing to compact"
    app.out.done(f"{name} {done}; version {version}.", {"table": name, "version": version})


def _compactable(table: Table, where: str | None, target_size: int | None) -> tuple[int, int]:
    from deltasql.api.write.compaction import choose_groups, write_spec
    from deltasql.api.write.operations import live_adds, partition_filter

    snapshot = table.snapshot()
    chosen = partition_filter(snapshot, where) if where else None
    files = live_adds(snapshot, None if chosen is None else chosen.predicate)
    target = write_spec(snapshot, str, 0, target_size=target_size).file_size
    groups = choose_groups([add for add in files if chosen is None or chosen(add)], target)
    small = [add for group in groups for add in group]
    return len(small), sum(add.size for add in small)


@command(example="deltasql restore orders --version 3")
@table_argument
@at_options
@dry_run_option
@pass_app
def restore(
    app: App,
    table: str | None,
    version: int | None,
    timestamp: datetime | None,
    dry_run: bool,
) -> None:
    """Bring a table back to the state of an earlier version.

    This is a new version: nothing is lost, and it can be undone the same way.
    """
    check_at(version, timestamp)
    if version is None and timestamp is None:
        raise BadArgumentError("Say what to restore: --version or --timestamp.")
    name = app.table_name(table)
    with app.connect() as catalog:
        found = catalog.table(name)
        if dry_run:
            then = found.snapshot(version=version, timestamp=timestamp)
            ours, theirs = _identities(found.snapshot()), _identities(then)
            facts = {"table": name, "restores": then.version, "current": found.version}
            facts |= {"adds": len(theirs - ours), "removes": len(ours - theirs)}
            text = f"{facts['adds']} files would come back and {facts['removes']} would go."
            app.out.done(text, facts)
            return
        made = found.restore(version=version, timestamp=timestamp)
        warn_of_lag(app, catalog, name)
    app.out.done(f"{name} is at version {made}.", {"table": name, "version": made})


def _identities(snapshot: Snapshot) -> set[tuple[str, str]]:
    files = snapshot.files(["path", "dv_id"])
    return set(zip(files["path"].to_pylist(), files["dv_id"].to_pylist(), strict=True))


@command(example="deltasql detach orders --yes")
@table_argument
@click.option(
    "--keep-timestamps",
    is_flag=True,
    help="Keep in-commit timestamps; delta-rs cannot write such a table.",
)
@yes_option
@dry_run_option
@pass_app
def detach(
    app: App, table: str | None, keep_timestamps: bool, is_sure: bool, dry_run: bool
) -> None:
    """Give a table back to ordinary Delta writers.

    A last commit removes the fence and the in-commit timestamps that deltasql switched on, the log
    is completed, and the catalog writes to it no more. Readers then take the time of a version
    from its file in the log.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        found = catalog.table(name)
        facts = {"table": name, "location": found.location, "version": found.version}
        if dry_run:
            app.out.done(f"{name} would be detached; its log stays in {found.location}.", facts)
            return
        app.confirm(f"Detach {name}? This catalog will not write to it again.", is_sure=is_sure)
        facts["version"] = found.detach(keep_timestamps=keep_timestamps)
    app.out.done(f"{name} is detached: any Delta writer may go on in {facts['location']}.", facts)


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
