"""The options of `format("deltasql")`, of reads and of writes, as Delta spells them.

Spark hands over texts, under names without case. The names of a write are those of
`deltasql.spark.write`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from deltasql.api.catalog import Catalog
from deltasql.api.detail import to_ms
from deltasql.api.table import Table
from deltasql.errors import BadArgumentError
from deltasql.options import fold, read_options
from deltasql.protocol.values import parse_zone
from deltasql.spark.session.address import for_others, open_table, table_name
from deltasql.spark.streaming.stream_options import FOLLOW_NAMES, to_version
from deltasql.spark.write.write_options import SaveMode, WriteOptions
from deltasql.spark.write.write_options import parse_options as parse_write_options

SOURCE = "deltasql"

_URI, _PATH, _TABLE, _STORAGE = "uri", "path", "table", "storagesecrets"
_SAVE_MODE, _PARTITIONS, _ZONE = "savemode", "partitionby", "timezone"
_CHECKPOINT, _APP_ID = "checkpointlocation", "txnappid"

# What Spark refuses as a mode of a Python source, so that it comes as an option.
_MODES: Mapping[str, SaveMode] = {
    "error": "errorifexists",
    "errorifexists": "errorifexists",
    "ignore": "ignore",
}

# What a stream says itself, batch by batch, and what makes no sense for rows that keep coming.
_NOT_OF_STREAMS = {
    _SAVE_MODE: "saveMode",
    "commitid": "commitId",
    "txnversion": "txnVersion",
    "replacewhere": "replaceWhere",
    "partitionoverwritemode": "partitionOverwriteMode",
    "datachange": "dataChange",
}


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


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """One write in full, and whose rows these are where a stream is not to speak for itself."""

    uri: str | None = field(repr=False)
    table: str
    write: WriteOptions
    app_id: str | None = None


def batch_options(options: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    """Read the options of a write that is one commit.

    Raises:
        BadArgumentError: one is not known, of no sense, or against another.
    """
    given = {fold(key): value for key, value in options.items()}
    mode = _mode(given.pop(_SAVE_MODE, None), overwrite=overwrite)
    return _read(given, mode)


def stream_options(options: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    """Read the options of a stream, each batch of which is one commit.

    Raises:
        BadArgumentError: one is not known, of no sense, or not for streams.
    """
    given = {fold(key): value for key, value in options.items()}
    given.pop(_CHECKPOINT, None)
    wrong = sorted(name for key, name in _NOT_OF_STREAMS.items() if key in given)
    if wrong:
        raise BadArgumentError(
            f"A stream does not take the option {', '.join(wrong)}.",
            hint="For a write of another kind, use foreachBatch and deltasql.spark.write.",
        )
    app_id = given.pop(_APP_ID, None)
    return replace(_read(given, "overwrite" if overwrite else "append"), app_id=app_id)


def _read(given: dict[str, Any], mode: SaveMode) -> SinkOptions:
    if _URI in given and _PATH in given:
        raise BadArgumentError("The catalog's URI is given twice, as an option and as the path.")
    uri = given.pop(_URI, None) or given.pop(_PATH, None)
    table = table_name(uri, given.pop(_TABLE, None))
    storage = _storage(given.pop(_STORAGE, None))
    zone = parse_zone(given.pop(_ZONE, "UTC"))
    if _PARTITIONS in given:
        given[_PARTITIONS] = _names(given[_PARTITIONS])
    write = parse_write_options(mode, given, {"storage_options": storage})
    return SinkOptions(uri, table, replace(write, zone=zone))


def _mode(text: str | None, *, overwrite: bool) -> SaveMode:
    if text is None:
        return "overwrite" if overwrite else "append"
    found = _MODES.get(text.lower())
    if found is None:
        raise BadArgumentError(
            f"The option saveMode cannot be {text!r}.",
            hint="It is errorifexists (or error) or ignore; say mode('append') or "
            "mode('overwrite') for the others.",
        )
    if overwrite:
        raise BadArgumentError(f"The mode overwrite and the option saveMode={text} do not agree.")
    return found


def _storage(text: str | None) -> Mapping[str, str] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadArgumentError("The option storageSecrets is a JSON object.")
    return found


def _names(text: str) -> list[str]:
    """Return names given as a JSON list, or with commas between them."""
    if text.lstrip().startswith("["):
        try:
            return list(json.loads(text))
        except ValueError as error:
            raise BadArgumentError(f"The option partitionBy is no list: {text!r}.") from error
    return [name.strip() for name in text.split(",")]
