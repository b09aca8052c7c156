"""The actions of a checkpoint of any kind: one file, several parts, or V2 with its sidecars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.errors import MalformedActionError, ObjectNotFoundError
from deltasql.protocol.actions import Action, CheckpointMetadata, Sidecar
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.protocol.files import LOG_FOLDER, LogFile
from deltasql.storage.port import ObjectStore

_BATCH = 20_000
_KINDS = ("protocol", "metaData", "txn", "domainMetadata", "add", "remove", "sidecar")
_MAPS = ("partitionValues", "tags", "configuration")
_PARSED = ("stats_parsed", "partitionValues_parsed")


def read_checkpoint(store: ObjectStore, parts: Sequence[LogFile]) -> Iterator[Action]:
    """Yield the state that a checkpoint holds, in bounded memory.

    Raises:
        MalformedActionError: a file of it is missing or damaged, or leaves out the statistics
            that it has (as typed columns only).
    """
    for part in parts:
        for action in _part(store, part.key, part.version):
            if isinstance(action, Sidecar):
                yield from _parquet(store, _sidecar_key(action), part.version)
            elif not isinstance(action, CheckpointMetadata):
                yield action


def _part(store: ObjectStore, key: str, version: int) -> Iterator[Action]:
    if key.endswith(".json"):
        return iter(decode_commit(store.get(key), version=version, lenient=True))
    return _parquet(store, key, version)


def _sidecar_key(sidecar: Sidecar) -> str:
    return f"{LOG_FOLDER}_sidecars/{sidecar.path}"


def _parquet(store: ObjectStore, key: str, version: int) -> Iterator[Action]:
    try:
        with store.open_input(key) as file:
            parquet = pq.ParquetFile(file)
            names = [name for name in _KINDS if name in parquet.schema_arrow.names]
            _require_statistics(parquet.schema_arrow, key, version)
            for batch in parquet.iter_batches(_BATCH, columns=names):
                for row in batch.to_pylist():
                    yield from _actions(row)
    except ObjectNotFoundError as error:
        raise MalformedActionError(
            f"The checkpoint of version {version} lacks its file {key}.", version=version
        ) from error
    # damaged text is a UnicodeDecodeError, a column of another shape a TypeError or the like
    except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError) as error:
        raise MalformedActionError(
            f"The checkpoint {key} at {store.uri} cannot be read.", version=version
        ) from error


def _require_statistics(schema: pa.Schema, key: str, version: int) -> None:
    if "add" not in schema.names:
        return
    names = {field.name for field in schema.field("add").type}
    if "stats_parsed" in names and "stats" not in names:
        raise MalformedActionError(
            f"The checkpoint {key} has its statistics as typed columns only.",
            hint="Set delta.checkpoint.writeStatsAsJson=true and write a checkpoint.",
            version=version,
        )


def _actions(row: dict[str, Any]) -> Iterator[Action]:
    for kind, body in row.items():
        if body is not None:
            yield from_json_object({kind: _plain(kind, body)})


def _plain(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's struct as JSON would have it: maps as objects, no empty fields."""
    plain = {
        key: dict(value) if key in _MAPS else value
        for key, value in body.items()
        if value is not None and key not in _PARSED
    }
    if kind == "metaData":
        form = plain.get("format") or {}
        options = dict(form.get("options") or [])
        plain["format"] = {"provider": form.get("provider"), "options": options}
        plain.setdefault("configuration", {})
    if plain.get("deletionVector") is not None:
        vector = plain["deletionVector"]
        plain["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
    return msgspec.to_builtins(plain)  # type: ignore[no-any-return]
