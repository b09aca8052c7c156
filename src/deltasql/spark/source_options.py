"""The options of `format("deltasql")`, as Delta spells them: read from a mapping, and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import msgspec

from deltasql.client.catalog import Catalog
from deltasql.client.table import Table
from deltasql.client.times import to_ms
from deltasql.errors import BadArgumentError
from deltasql.options import read_options
from deltasql.protocol.time_zones import parse_zone
from deltasql.spark.address import for_others, open_table, table_name
from deltasql.spark.follow_options import FOLLOW_NAMES, to_version

SOURCE = "deltasql"


class _Given(msgspec.Struct, kw_only=True, frozen=True):
    """The options by name; by the word `secrets` Spark knows what not to show."""

    uri: str | None = None
    path: str | None = None
    table: str | None = None
    version_as_of: str | None = None
    timestamp_as_of: str | None = None
    where: str | None = None
    skip_where: str | None = None
    columns: str | None = None
    time_zone: str = "UTC"
    storage_secrets: str = "{}"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Which table, and what of it; the options of the stores are shown to nobody.

    `where` leaves rows out, `skip` only files none of whose rows can meet it. `zone` is that of
    times that name none: Spark tells a source nothing of the session's.
    """

    uri: str | None
    table: str
    version: int | None = None
    timestamp: int | None = None
    where: str | None = None
    skip: str | None = None
    columns: tuple[str, ...] | None = None
    zone: tzinfo = UTC
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def source_options(version: int, skip: str | None) -> dict[str, str]:
    """Return the options by which a source reads of a table what a call has planned."""
    pinned = {"versionAsOf": str(version)}
    return pinned if skip is None else {**pinned, "skipWhere": skip}


def table_options(
    uri: str | None, table: str, storage_options: Mapping[str, str] | None, zone: str
) -> dict[str, str]:
    """Return the options by which a source finds a table and its stores."""
    given = {
        "uri": for_others(uri),
        "table": table,
        "timeZone": zone,
        "storageSecrets": json.dumps(dict(storage_options)) if storage_options else None,
    }
    return {key: value for key, value in given.items() if value is not None}


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Read options, whose names Spark does not distinguish by case.

    Raises:
        BadArgumentError: one is not known, or its value does not fit.
    """
    given = read_options(_Given, options, 'format("deltasql")', also_known=FOLLOW_NAMES)
    if given.uri is not None and given.path is not None:
        raise BadArgumentError("The catalog's URI is given twice, as an option and as the path.")
    uri, zone = given.uri or given.path, parse_zone(given.time_zone)
    moment, columns = given.timestamp_as_of, given.columns
    return SourceOptions(
        uri,
        table_name(uri, given.table),
        None if given.version_as_of is None else to_version("versionAsOf", given.version_as_of),
        None if moment is None else to_ms(moment, zone),
        given.where,
        given.skip_where,
        tuple(name.strip() for name in columns.split(",")) if columns else None,
        zone,
        json.loads(given.storage_secrets),
    )


@contextmanager
def open_source(chosen: SourceOptions) -> Iterator[tuple[Catalog, Table]]:
    """Open the table that options name."""
    storage = chosen.storage_options or None
    with open_table(chosen.uri, chosen.table, storage_options=storage) as found:
        yield found
