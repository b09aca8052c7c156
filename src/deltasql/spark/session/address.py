"""Which table of which catalog: a URI that names it, or a URI and a name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deltasql.api.catalog import Catalog
from deltasql.api.connect import connect
from deltasql.api.table import Table
from deltasql.errors import BadArgumentError
from deltasql.settings import Settings
from deltasql.uri import SqliteUri, parse_uri


@contextmanager
def open_catalog(
    uri: str | None = None,
    *,
    settings: Settings | None = None,
    storage_options: Mapping[str, str] | None = None,
    may_create: bool = False,
) -> Iterator[Catalog]:
    """Open a catalog for one call; a table that its URI names does not matter.

    One that is not there is made only where tables may be made too.
    """
    chosen = settings if settings is not None else Settings.load(os.environ, Path.cwd())
    if not may_create:
        chosen = replace(chosen, sql=replace(chosen.sql, schema="error"))
    with connect(
        uri, settings=chosen, storage_options=storage_options, client="deltasql.spark"
    ) as catalog:
        if may_create:
            catalog.create_if_missing()
        yield catalog


@contextmanager
def open_table(
    uri: str | None,
    table: str | None = None,
    *,
    settings: Settings | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[tuple[Catalog, Table]]:
    """Open a catalog and one of its tables for one call.

    Raises:
        BadArgumentError: no table is named, or two are.
        TableNotFoundError: there is none of that name.
    """
    name = table_name(uri, table)
    with open_catalog(uri, settings=settings, storage_options=storage_options) as catalog:
        yield catalog, catalog.table(name)


def table_name(uri: str | None, table: str | None = None) -> str:
    """Return the name of the table that a URI, or the caller beside it, tells.

    Raises:
        BadArgumentError: no table is named, or two are.
    """
    named = parse_uri(uri).table if uri is not None else None
    if named is not None and table is not None and named != table:
        raise BadArgumentError(f"The URI names the table {named}, the call the table {table}.")
    name = table or named
    if name is None:
        raise BadArgumentError(
            "No table is named.", hint="Add ?table=NAME to the URI, or give the table's name."
        )
    return name


def for_others(uri: str | None) -> str | None:
    """Return a URI that means the same to processes which run in other directories."""
    found = None if uri is None else parse_uri(uri)
    if not isinstance(found, SqliteUri):
        return uri
    return str(replace(found, path=str(Path(found.path).absolute())))
