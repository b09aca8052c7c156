"""Commands on tables: list, create, rename, drop and undrop them; show history, files and rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App, command, parse_pairs, pass_app
from deltasql.cli.arguments import (
    at_options,
    check_at,
    dry_run_option,
    follow_option,
    parse_column,
    read_schema,
    table_argument,
    warn_of_lag,
    where_option,
    yes_option,
)
from deltasql.cli.output import plain_rows
from deltasql.errors import BadArgumentError, missing_table_error

if TYPE_CHECKING:
    import pyarrow as pa

    from deltasql.api.catalog import Catalog, TableInfo
    from deltasql.api.scan import Scan

_HISTORY = ["version", "committed_at", "operation", "adds", "removes", "committer"]
_FILES = ["path", "size", "num_records", "partition_values"]
_CHANGES = ["version", "change", "path", "size", "num_records"]


@command(example="deltasql tables -o json")
@click.option("--dropped", is_flag=True, help="List the dropped tables, the last one first.")
@pass_app
def tables(app: App, *, dropped: bool) -> None:
    """List the tables of the catalog."""
    if dropped:
        _list_dropped(app)
        return
    with app.connect() as catalog:
        rows = [
            {
                "name": info.name,
                "version": info.version,
                "state": info.state,
                "location": info.location,
                "table_id": info.table_id,
            }
            for info in catalog.tables()
        ]
        unfinished = catalog.unfinished_imports()
    app.out.rows(rows, ["name", "version", "state", "location"])
    if unfinished:
        names = ", ".join(f"{info.name} (at version {info.version})" for info in unfinished)
        app.out.note(
            f"Not ended: the import of {names}. `deltasql import … --resume` ends it, "
            "`deltasql drop` takes it back."
        )


@command(
    example="deltasql create orders --location /lake/orders --column id:long --column day:date "
    "--partition-by day"
)
@table_argument
@click.option("--location", required=True, help="Where the table's files and log live.")
@click.option("--column", "columns", metavar="NAME:TYPE", multiple=True, help="A column.")
@click.option("--schema", metavar="FILE", help="Take the columns from a Parquet or JSON file.")
@click.option("--partition-by", metavar="NAME", multiple=True, help="A partition column.")
@click.option("--property", "pairs", metavar="KEY=VALUE", multiple=True, help="A property.")
@click.option("--description", help="What the table is for.")
@click.option("--exist-ok", is_flag=True, help="Be content with a table that is there already.")
@pass_app
def create(
    app: App,
    *,
    table: str | None,
    location: str,
    columns: tuple[str, ...],
    schema: str | None,
    partition_by: tuple[str, ...],
    pairs: tuple[str, ...],
    description: str | None,
    exist_ok: bool,
) -> None:
    """Create a table.

    Types are Delta's (long, string, date, timestamp, decimal(10,2) …) or SQL's; "not null" may
    follow.
    """
    from deltasql.protocol.schema.types import StructType

    if bool(columns) == bool(schema):
        raise BadArgumentError("Give the columns by --column or by --schema.")
    fields = read_schema(schema) if schema else StructType(tuple(map(parse_column, columns)))
    with app.connect_to_create() as catalog:
        made = catalog.create_table(
            app.table_name(table),
            location=location,
            schema=fields,
            partition_by=partition_by,
            properties=parse_pairs(pairs, "--property") or None,
            description=description,
            exist_ok=exist_ok,
        )
        facts = {"table": made.name, "version": made.version, "location": made.location}
        warn_of_lag(app, catalog, made.name)
    app.out.done(f"{facts['table']} is at version {facts['version']}.", facts)


@command(example="deltasql rename orders sales.orders")
@click.argument("old")
@click.argument("new")
@pass_app
def rename(app: App, old: str, new: str) -> None:
    """Give a table another name.

    Files and log stay where they are; NAMESPACE.NAME moves it to a namespace.
    """
    with app.connect() as catalog:
        catalog.rename(old, new)
    app.out.done(f"{old} is now called {new}.", {"table": new, "previous": old})


@command(example="deltasql drop orders --purge --yes")
@table_argument
@click.option("--keep-data", is_flag=True, help="Keep the files and the log.  [default]")
@click.option("--purge", is_flag=True, help="Delete the table's files and log too.")
@click.option("--force", is_flag=True, help="Also when the log has not followed SQL to the end.")
@yes_option
@dry_run_option
@pass_app
def drop(
    app: App,
    *,
    table: str | None,
    keep_data: bool,
    purge: bool,
    force: bool,
    is_sure: bool,
    dry_run: bool,
) -> None:
    """Remove a table from the catalog.

    Its files, its log and its rows in SQL stay, and `deltasql undrop` brings it back, unless
    --purge is given: that cannot be undone. An import that was not cut over is taken back: its rows
    go, its source stays as it is, and can be imported again. On a terminal the command asks first.
    """
    if keep_data and purge:
        raise BadArgumentError("Give --keep-data or --purge, not both.")
    name = app.table_name(table)
    with app.connect() as catalog:
        found = _find(catalog, name)
        facts = {"table": name, "location": found.location, "version": found.version}
        facts |= {"table_id": found.table_id}
        if dry_run:
            kept = "deleted" if purge else "kept"
            app.out.done(f"{name} would be dropped; its files would be {kept}.", facts)
            return
        if purge:
            app.confirm(f"Delete {name} and all files in {found.location}?", is_sure=is_sure)
        else:
            question = f"Drop {name} (version {found.version})? {_what_stays(found)}"
            app.confirm(question, is_sure=is_sure, has_way_back=True)
        catalog.drop(name, purge=purge, force=force)
    app.out.done(f"{name} was dropped.", facts)
    if not purge:
        app.out.note(_what_stays(found))


@command(example="deltasql undrop orders")
@table_argument
@click.option("--id", "table_id", metavar="ID", help="The table's id, if several were dropped.")
@dry_run_option
@pass_app
def undrop(app: App, *, table: str | None, table_id: str | None, dry_run: bool) -> None:
    """Bring a dropped table back, with all its versions.

    Of several tables of the name the one that was dropped last comes back; --id chooses another
    (see `deltasql tables --dropped`). Refused if the table was purged, if its name or location is
    taken by now, or if its log was changed since.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        found = catalog.undrop_table(name, table_id=table_id, dry_run=dry_run)
        facts = {"table": found.name, "version": found.version, "location": found.location}
        facts |= {"table_id": found.table_id}
        if not dry_run:
            facts["state"] = str(found.state)
            warn_of_lag(app, catalog, found.name)
    done = "would come back" if dry_run else "is back"
    app.out.done(f"{name} {done} at version {facts['version']}.", facts)


def _list_dropped(app: App) -> None:
    with app.connect() as catalog:
        rows = [
            {
                "name": info.name,
                "version": info.version,
                "dropped_at": _moment(info.dropped_at),
                "can_undrop": info.state is not None,
                "state": info.state,
                "location": info.location,
                "table_id": info.table_id,
            }
            for info in catalog.dropped_tables()
        ]
    app.out.rows(rows, ["name", "version", "dropped_at", "can_undrop", "location", "table_id"])


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _what_stays(info: TableInfo) -> str:
    """Say what remains of a dropped table, and how it comes back."""
    if info.state in {"importing", "read_only"}:
        return (
            f"It is an import: its rows in SQL go, the source {info.location} stays and can be "
            "imported again."
        )
    return (
        f"Its rows in SQL, its data and its log in {info.location} stay. `deltasql undrop "
        f"{info.name}` brings it back as long as its log is not changed and no other table has its "
        "name or location."
    )


def _find(catalog: Catalog, name: str) -> TableInfo:
    """Return a table, also one whose import has not ended."""
    known = [*catalog.tables(), *catalog.unfinished_imports()]
    found = next((info for info in known if info.name == name), None)
    if found is None:
        raise missing_table_error(name, [info.name for info in known])
    return found


@command(example="deltasql history orders --limit 5")
@table_argument
@click.option("--limit", type=click.IntRange(min=1), help="At most so many, the newest first.")
@follow_option
@pass_app
def history(app: App, *, table: str | None, limit: int | None, follow: bool) -> None:
    """List a table's versions: who did what, and when."""
    with app.connect() as catalog:
        entries = catalog.table(app.table_name(table), follow=follow).history(limit=limit)
    from deltasql.api.detail import time_text

    times = [time_text(entry.committed_at).replace("+00:00", "Z") for entry in entries]
    rows = [asdict(e) | {"committed_at": at} for e, at in zip(entries, times, strict=True)]
    app.out.rows(rows, _HISTORY)


@command(example="deltasql show orders")
@table_argument
@follow_option
@pass_app
def show(app: App, *, table: str | None, follow: bool) -> None:
    """Describe a table: state, schema, properties."""
    with app.connect() as catalog:
        found = catalog.table(app.table_name(table), follow=follow)
        columns = [
            {"name": field.name, "type": field.type.name, "nullable": field.nullable}
            for field in found.schema.fields
        ]
        app.out.describe(found.detail() | {"columns": columns})


@command(example="deltasql files orders --where \"day = '2026-01-01'\"")
@table_argument
@where_option
@at_options
@follow_option
@pass_app
def files(
    app: App,
    *,
    table: str | None,
    where: str | None,
    version: int | None,
    timestamp: datetime | None,
    follow: bool,
) -> None:
    """List the data files of a table.

    With a filter: the files that can hold a matching row.
    """
    check_at(version, timestamp)
    with app.connect() as catalog:
        found = catalog.table(app.table_name(table), follow=follow)
        listed = found.snapshot(version=version, timestamp=timestamp, where=where).files()
    app.out.rows(map(_with_values, listed.to_pylist()), _FILES)


def _with_values(row: dict[str, Any]) -> dict[str, Any]:
    """The catalog holds partition values as JSON text: show them as what they are."""
    return row | {"partition_values": json.loads(row["partition_values"])}


@command(example="deltasql sample orders --columns id,day --limit 3")
@table_argument
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--columns", metavar="A,B", help="Only these columns.")
@where_option
@at_options
@follow_option
@pass_app
def sample(
    app: App,
    *,
    table: str | None,
    limit: int,
    columns: str | None,
    where: str | None,
    version: int | None,
    timestamp: datetime | None,
    follow: bool,
) -> None:
    """Print some rows of a table."""
    check_at(version, timestamp)
    names = columns.split(",") if columns else None
    with app.connect() as catalog:
        found = catalog.table(app.table_name(table), follow=follow)
        scan = found.scan(columns=names, where=where, version=version, timestamp=timestamp)
        rows = _first_rows(scan, limit)
    app.out.rows(plain_rows(rows), rows.column_names)


def _first_rows(scan: Scan, limit: int) -> pa.Table:
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    left = limit
    for batch in scan.batches():
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if left == 0:
            break
    return pa.Table.from_batches(batches, scan.schema)


@command(example="deltasql diff orders 3 9")
@click.argument("table")
@click.argument("first", type=click.IntRange(min=0))
@click.argument("last", type=click.IntRange(min=0))
@follow_option
@pass_app
def diff(app: App, *, table: str, first: int, last: int, follow: bool) -> None:
    """List the files that came and went between two versions.

    Counted are the changes after FIRST, up to and including LAST.
    """
    with app.connect() as catalog:
        changes = catalog.table(table, follow=follow).changes(first, last)
    app.out.rows([asdict(change) for change in changes], _CHANGES)
