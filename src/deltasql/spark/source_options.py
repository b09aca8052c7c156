"""The options of `format("deltasql")`, as Delta spells them: read from a mapping, and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from deltasql.client.catalog import Catalog
from deltasql.client.table import Table
from deltasql.client.times import to_ms
from deltasql.errors import BadArgumentError
from deltasql.protocol.time_zones import parse_zone
from deltasql.spark.address import for_others, open_table, table_name
from deltasql.spark.follow_options import FOLLOW_NAMES

SOURCE = "deltasql"
_URI, _PATH, _TABLE = "uri", "path", "table"
_VERSION, _TIMESTAMP, _WHERE, _COLUMNS = "versionAsOf", "timestampAsOf", "where", "columns"
_SKIP, _ZONE = "skipWhere", "timeZone"
# a word by which Spark knows what not to show
_STORAGE = "storageSecrets"
_KNOWN = (_URI, _PATH, _TABLE, _VERSION, _TIMESTAMP, _WHERE, _SKIP, _COLUMNS, _ZONE, _STORAGE)


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
    return {_VERSION: str(version)} if skip is None else {_VERSION: str(version), _SKIP: skip}


def table_options(
    uri: str | None, table: str, storage_options: Mapping[str, str] | None, zone: str
) -> dict[str, str]:
    """Return the options by which a source finds a table and its stores."""
    given = {
        _URI: for_others(uri),
        _TABLE: table,
        _ZONE: zone,
        _STORAGE: json.dumps(dict(storage_options)) if storage_options else None,
    }
    return {key: value for key, value in given.items() if value is not None}


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Read options, whose names Spark does not distinguish by case.

    Raises:
        BadArgumentError: one is not known, or its value does not fit.
    """
    named = {name.lower(): name for name in _KNOWN}
    unknown = sorted(key for key in options if key.lower() not in named)
    if unknown:
        raise BadArgumentError(
            f'format("deltasql") has no option {", ".join(unknown)}.',
            hint=f"It has {', '.join((*_KNOWN, *FOLLOW_NAMES))}.",
        )
    given: dict[str, Any] = {named[key.lower()]: value for key, value in options.items()}
    if _URI in given and _PATH in given:
        raise BadArgumentError("The catalog's URI is given twice, as an option and as the path.")
    uri = given.get(_URI, given.get(_PATH))
    columns, zone = given.get(_COLUMNS), parse_zone(given.get(_ZONE, "UTC"))
    moment = given.get(_TIMESTAMP)
    return SourceOptions(
        uri,
        table_name(uri, given.get(_TABLE)),
        _version(given.get(_VERSION)),
        None if moment is None else to_ms(moment, zone),
        given.get(_WHERE),
        given.get(_SKIP),
        tuple(name.strip() for name in columns.split(",")) if columns else None,
        zone,
        json.loads(given.get(_STORAGE, "{}")),
    )


@contextmanager
def open_source(chosen: SourceOptions) -> Iterator[tuple[Catalog, Table]]:
    """Open the table that options name."""
    storage = chosen.storage_options or None
    with open_table(chosen.uri, chosen.table, storage_options=storage) as found:
        yield found


def _version(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise BadArgumentError(f"versionAsOf is {text!r}, which is no version.")
    return int(text)
