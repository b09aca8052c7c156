"""Read a log's own rules: protocol, metadata and the newest in-commit timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltasql.errors import MalformedActionError
from deltasql.log.commits import Segment
from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.codec import decode_commit
from deltasql.protocol.log_names import LogFile
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
    """Return protocol and metaData of a Parquet checkpoint; no other column is read."""
    from deltasql.log.checkpoint_reader import read_few  # noqa: PLC0415 (Arrow is slow to load)

    return iter(read_few(store, part, _KINDS))
