"""What `df.write.format("deltasql")` and its stream are told: an address, and options of a write.

Spark hands over texts, under names without case. The names of a write are those of
`deltasql.spark.write`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltasql.errors import BadArgumentError
from deltasql.options import fold
from deltasql.protocol.time_zones import parse_zone
from deltasql.spark.address import table_name
from deltasql.spark.write_options import SaveMode, WriteOptions, parse_options

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
    write = parse_options(mode, given, {"storage_options": storage})
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
