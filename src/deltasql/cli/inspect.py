"""Commands that look at a table: history, show, files, sample, diff."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App, command, pass_app
from deltasql.cli.arguments import (
    at_options,
    check_at,
    follow_option,
    table_argument,
    where_option,
)
from deltasql.cli.output import plain_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from deltasql.client.scan import Scan

_HISTORY = ["version", "committed_at", "operation", "adds", "removes", "committer"]
_FILES = ["path", "size", "num_records", "partition_values"]
_CHANGES = ["version", "change", "path", "size", "num_records"]


@command(example="deltasql history orders --limit 5")
@table_argument
@click.option("--limit", type=click.IntRange(min=1), help="At most so many, the newest first.")
@follow_option
@pass_app
def history(app: App, *, table: str | None, limit: int | None, follow: bool) -> None:
    """List a table's versions: who did what, and when."""
    with app.connect() as catalog:
        entries = catalog.table(app.table_name(table), follow=follow).history(limit=limit)
    from deltasql.client.times import time_text

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
    """The book holds partition values as JSON text: show them as what they are."""
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
