"""What the source log says by itself, summarized while it is read and read a second time on
demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import MalformedActionError, SchemaError
from deltasql.imports.load.window import VersionWindow
from deltasql.imports.plan.import_plan import ImportPlan
from deltasql.imports.plan.listing import Checkpoint
from deltasql.imports.read.tasks import StatePart
from deltasql.imports.validate.differences import FILE_COLUMNS, Check
from deltasql.imports.validate.file_history import Events, Totals, count_files, events_of
from deltasql.log.checkpoint_reader import checkpoint_parts, read_files, read_head
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltasql.protocol.schema.types import parse_schema, print_schema
from deltasql.storage.port import ObjectStore

_DIGESTS = pa.schema([("version", pa.int64()), ("digest", pa.string())])

# A log whose checkpoints are all corrupt is told so after these.
_MOST_TRIES = 3


@dataclass(slots=True)
class Rules:
    """What is in force at a version: protocol, metadata, transactions and domains."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def take(self, window: VersionWindow, through: int) -> None:
        """Take the next versions, up to one."""
        for version, change in window.changes:
            if version > through:
                break
            if isinstance(change, Protocol):
                self.protocol = change
            else:
                self.metadata = change
        for row in _rows_through(window.txns, through):
            self.txns[row["app_id"]] = row["txn_version"]
        for row in _rows_through(window.domains, through):
            if row["removed"]:
                self.domains.pop(str(row["domain"]), None)
            else:
                self.domains[str(row["domain"])] = str(row["configuration"])


@dataclass(slots=True)
class LogSummary:
    """Follows the rows of a log as tasks bring them; knows nothing of how they are folded.

    `rules` are those of the newest version, `rules_at_oldest` those of `oldest`, where the log is
    read from a version before it.
    """

    oldest: int = -1
    rules: Rules = field(default_factory=Rules)
    rules_at_oldest: Rules = field(default_factory=Rules)
    versions: int = 0
    adds: int = 0
    removes: int = 0
    began_with_book: bool = False
    missed_state: bool = False
    _digests: list[pa.Table] = field(default_factory=list)
    _events: list[pa.Table] = field(default_factory=list)

    def begin_with(self, snapshot: Snapshot) -> None:
        """Begin with a version that SQL has already, and that was compared when it came."""
        self.began_with_book = True
        self.rules = Rules(
            snapshot.protocol,
            snapshot.metadata,
            {txn.app_id: txn.version for txn in snapshot.txns()},
            {one.domain: one.configuration for one in snapshot.domains()},
        )
        for batch in snapshot.stream_files(FILE_COLUMNS):
            self._events.append(events_of(pa.Table.from_batches([batch]), snapshot.version))

    def take_state(self, part: StatePart) -> None:
        """Take a part of the state that a history stands on."""
        self._events.append(part.events)

    def take(self, window: VersionWindow) -> None:
        """Take the next versions."""
        self._events.append(window.events)
        self.versions += window.versions.num_rows
        self.adds += sum(window.versions["adds"].to_pylist())
        self.removes += sum(window.versions["removes"].to_pylist())
        self._digests.append(window.versions.select(_DIGESTS.names).cast(_DIGESTS))
        self.rules.take(window, window.last)
        if window.first <= self.oldest:
            self.rules_at_oldest.take(window, self.oldest)

    def digests(self, since: int) -> pa.Table:
        """Return the digests of the versions from one on, in order."""
        heard = pa.concat_tables([_DIGESTS.empty_table(), *self._digests])
        return heard.filter(pc.field("version") >= since).sort_by("version")

    def events(self) -> Events:
        """Return all events, sorted."""
        return Events(self._events)


def _rows_through(rows: pa.Table, version: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.filter(pc.less_equal(rows["version"], version)).to_pylist()
    return found


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
