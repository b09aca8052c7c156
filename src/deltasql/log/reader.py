"""Read a log's own rules: protocol, metadata and the newest in-commit timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from deltasql.errors import MalformedActionError
from deltasql.log.segment import Segment
from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.codec import decode_commit, from_json_object
from deltasql.protocol.files import LogFile
from deltasql.storage.port import ObjectStore

_KINDS = ("protocol", "metaData")


@dataclass(frozen=True, slots=True)
class LogRules:
    """What a writer must know of a log before it adds a commit."""

    version: int
    protocol: Protocol
    metadata: Metadata
    in_commit_timestamp: int | None


def read_rules(store: ObjectStore, segment: Segment) -> LogRules:
    """Return the rules at the segment's newest version.

    Raises:
        MalformedActionError: a file is damaged, or none holds the protocol and the metadata.
    """
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    timestamp: int | None = None
    for action in _rule_actions(store, segment):
        match action:
            case Protocol():
                protocol = action
            case Metadata():
                metadata = action
            case CommitInfo():
                timestamp = action.in_commit_timestamp or timestamp
    if protocol is None or metadata is None:
        raise MalformedActionError(
            f"The log at {store.uri} has no protocol or metadata.",
            hint="The first version of a log brings both; restore it from a backup.",
        )
    return LogRules(segment.version, protocol, metadata, timestamp)


def _rule_actions(store: ObjectStore, segment: Segment) -> Iterator[Action]:
    for part in segment.checkpoint:
        if part.name.endswith(".json"):
            yield from decode_commit(store.get(part.key), version=part.version, lenient=True)
        else:
            yield from _checkpoint_rules(store, part)
    for file in segment.commits:
        payload = store.get(file.key)
        if not payload.strip():
            raise MalformedActionError(
                f"The commit {file.key} at {store.uri} is empty.",
                hint="Bring it back from a backup.",
                version=file.version,
            )
        yield from decode_commit(payload, version=file.version, lenient=True)


def _checkpoint_rules(store: ObjectStore, part: LogFile) -> Iterator[Action]:
    """Yield protocol and metaData of a Parquet checkpoint; no other column is read."""
    import pyarrow as pa  # noqa: PLC0415 (only logs with a checkpoint need it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with store.open_input(part.key) as file:
            parquet = pq.ParquetFile(file)
            names = [name for name in _KINDS if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(columns=names):
                for row in batch.to_pylist():
                    yield from _row_actions(row)
    # damaged text is a UnicodeDecodeError, a column of another shape a TypeError or the like
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        MalformedActionError,
    ) as error:
        detail = f": {error.message}" if isinstance(error, MalformedActionError) else "."
        raise MalformedActionError(
            f"The checkpoint {part.key} at {store.uri} cannot be read{detail}",
            hint="Bring it back from a backup, or delete it where all commits are still there.",
            version=part.version,
        ) from error


def _row_actions(row: dict[str, Any]) -> Iterator[Action]:
    for kind, body in row.items():
        if body is not None:
            yield from_json_object({kind: _plain(kind, body)})


def _plain(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's struct as JSON would have it: maps as objects, no empty fields."""
    plain = {key: value for key, value in body.items() if value is not None}
    if kind == "metaData":
        plain["configuration"] = dict(plain.get("configuration") or [])
        form = plain.get("format") or {}
        plain["format"] = {
            "provider": form.get("provider"),
            "options": dict(form.get("options") or []),
        }
    return msgspec.to_builtins(plain)  # type: ignore[no-any-return]
