"""The newest checkpoint of a source: written by somebody else, it may contradict the commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from deltasql.catalog.snapshots import Snapshot
from deltasql.errors import MalformedActionError, SchemaError
from deltasql.importer.listing import Checkpoint
from deltasql.importer.plan import ImportPlan
from deltasql.log.checkpoint_rows import checkpoint_parts, read_files, read_head
from deltasql.parity.differences import Check
from deltasql.parity.events import Events
from deltasql.parity.file_hashes import Totals, count_files
from deltasql.protocol.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltasql.protocol.schema import parse_schema, print_schema
from deltasql.storage.port import ObjectStore

# A log whose checkpoints are all corrupt is told so after these.
_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class Heard:
    """What the newest checkpoint says that can be read; `unreadable` tells of newer ones."""

    checkpoint: Checkpoint | None = None
    head: tuple[Action, ...] = ()
    files: Totals | None = None
    unreadable: tuple[str, ...] = ()


def hear_checkpoint(plan: ImportPlan, store: ObjectStore, *, since: int, head: int) -> Heard:
    """Read the newest checkpoint of the source, unless we began with it."""
    usable = [
        checkpoint
        for checkpoint in plan.checkpoints
        if since <= checkpoint.version <= head
        and checkpoint != plan.base
        and checkpoint not in plan.refused
    ]
    unreadable: list[str] = []
    for one in usable[: -_MOST_TRIES - 1 : -1]:
        try:
            told = read_head(store, one.parts)
            return Heard(one, told, count_files(checkpoint_adds(store, one)), tuple(unreadable))
        except MalformedActionError as error:
            unreadable.append(
                f"The checkpoint of version {one.version} is corrupt: {error.message}"
            )
    return Heard(unreadable=tuple(unreadable))


def checkpoint_adds(store: ObjectStore, checkpoint: Checkpoint) -> Iterator[pa.RecordBatch]:
    """Yield the files that a checkpoint calls live."""
    for part in checkpoint_parts(store, checkpoint.parts):
        for batch in read_files(store, part):
            yield batch.adds


def compare_with_commits(heard: Heard, events: Events) -> Iterator[Check]:
    """Compare a checkpoint with what the commits tell, where nothing is imported yet."""
    if heard.checkpoint is not None:
        version = heard.checkpoint.version
        yield Check("files of the checkpoint", version, heard.files, events.totals(version))


def compare_with_book(heard: Heard, snapshot: Snapshot, files: Totals) -> Iterator[Check]:
    """Compare a checkpoint with what SQL has at its version; `files` are SQL's."""
    version, head = snapshot.version, heard.head
    for kind, ours in ((Protocol, snapshot.protocol), (Metadata, snapshot.metadata)):
        name = f"{kind.kind} of the checkpoint"
        yield Check(name, version, _meaning(_one(head, kind)), _meaning(ours))
    txns = {txn.app_id: txn.version for txn in snapshot.txns()}
    kept = {a.app_id: a.version for a in head if isinstance(a, Txn)}
    # a checkpoint leaves out what has expired
    yield Check("txns of the checkpoint", version, kept, {k: txns.get(k) for k in kept})
    said = [a for a in head if isinstance(a, DomainMetadata) and not a.removed]
    domains = {a.domain: a.configuration for a in said}
    ours_by_name = {one.domain: one.configuration for one in snapshot.domains()}
    yield Check("domains of the checkpoint", version, domains, ours_by_name)
    yield Check("files of the checkpoint", version, heard.files, files)


def _meaning(action: Action | None) -> dict[str, object]:
    """What a protocol or a metaData says, however its writer orders features and spaces JSON."""
    match action:
        case Protocol():
            return {
                "versions": (action.min_reader_version, action.min_writer_version),
                "reader features": sorted(action.reader_features or ()),
                "writer features": sorted(action.writer_features or ()),
            }
        case Metadata():
            return {
                "id": action.id,
                "schema": _schema(action.schema_string),
                "partition columns": action.partition_columns,
                "configuration": action.configuration,
            }
    return {}


def _schema(text: str) -> str:
    try:
        return print_schema(parse_schema(text))
    except SchemaError:
        return text


def _one(actions: tuple[Action, ...], kind: type) -> Action | None:
    return next((action for action in actions if isinstance(action, kind)), None)
