"""The guarantees of deltasql, checked on a table: for our tests and for those of users.

I1 versions without gap or duplicate · I2 every acknowledged commit exactly once · I3 the log's
bytes are the stored ones · I4 nothing of a commit that was rolled back · I5 the log has no gap ·
I6 a replay of the log gives the files that SQL has.

Fold actions, version by version, into the state of a table. Newest wins: one protocol, one
metaData, one txn per app, one configuration per domain, and per file key (path, deletion vector)
either a live add or a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from deltasql.api.catalog import Catalog
from deltasql.errors import CheckpointError, ObjectNotFoundError
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.checkpoints.check import require_equal
from deltasql.protocol.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    Remove,
    Txn,
    file_key,
    path_key,
)
from deltasql.protocol.codec import decode_commit, digest
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectStore


@dataclass(slots=True)
class TableState:
    """A table after some version; `apply` moves it one version on."""

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    files: dict[FileKey, Add] = field(default_factory=dict)
    tombstones: dict[FileKey, Remove] = field(default_factory=dict)
    in_commit_timestamp: int | None = None

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Apply one commit. Within it removes count before adds, whatever their order.

        A commit may not hold an add and a remove of one key; where one does, the add stays, as
        in a replay that reads the file's last word.
        """
        adds: list[Add] = []
        for action in actions:
            match action:
                case Add():
                    adds.append(action)
                case Remove():
                    self._end(action)
                case Protocol():
                    self.protocol = action
                case Metadata():
                    self.metadata = action
                case Txn():
                    self.txns[action.app_id] = action
                case DomainMetadata():
                    self._set_domain(action)
                case CommitInfo():
                    self.in_commit_timestamp = action.in_commit_timestamp
        for add in adds:
            key = file_key(add)
            self.tombstones.pop(key, None)
            self.files[key] = add
        self.version = version

    def _end(self, remove: Remove) -> None:
        key = file_key(remove)
        self.files.pop(key, None)
        self.tombstones[key] = remove

    def _set_domain(self, domain: DomainMetadata) -> None:
        if domain.removed:
            self.domains.pop(domain.domain, None)
        else:
            self.domains[domain.domain] = domain


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that does not hold, and where."""

    guarantee: str
    what: str


def check_invariants(
    catalog: Catalog, name: str, *, acknowledged: Mapping[str, int] | None = None
) -> None:
    """Raise AssertionError with every guarantee that a table breaks.

    `acknowledged` maps the commit_id of each commit that a caller was told of to its version.
    Mirroring is brought up to date first: the log is judged at rest.
    """
    catalog.table(name).wait_mirrored(timeout=30.0)
    found = list(find_violations(catalog, name, acknowledged=acknowledged))
    if found:
        lines = "\n".join(f"  {one.guarantee}: {one.what}" for one in found)
        raise AssertionError(f"Table {name} breaks its guarantees:\n{lines}")


def find_violations(
    catalog: Catalog, name: str, *, acknowledged: Mapping[str, int] | None = None
) -> Iterator[Violation]:
    """Yield what does not hold; nothing is changed."""
    connection = catalog._session.connection  # noqa: SLF001 (the checker looks below the face)
    row = connection.metastore.table(name)
    yield from _history(connection.metastore, row, acknowledged or {})
    yield from _log(connection.metastore, row, connection.store_of(row))
    yield from _checkpoints(connection, row)
    yield from _state(connection.metastore, row)


def _history(
    metastore: SqlCatalog, row: TableRow, acknowledged: Mapping[str, int]
) -> Iterator[Violation]:
    entries = sorted(metastore.history(row.table_id), key=lambda entry: entry.version)
    versions = [entry.version for entry in entries]
    expected = list(range(row.oldest_version, row.current_version + 1))
    if versions != expected:
        yield Violation("I1", f"versions are {versions[:20]}…, not {expected[:20]}…")
    times = [entry.committed_at for entry in entries]
    if any(later <= earlier for earlier, later in pairwise(times)):
        yield Violation("I1", "commit times do not increase strictly")
    by_token = {entry.commit_id: entry.version for entry in entries}
    for token, version in acknowledged.items():
        if by_token.get(token) != version:
            stored = by_token.get(token)
            yield Violation("I2", f"commit {token} was told as {version}, SQL has {stored}")


def _log(metastore: SqlCatalog, row: TableRow, store: ObjectStore) -> Iterator[Violation]:
    names = (info.key.removeprefix(LOG_FOLDER) for info in store.list_from(LOG_FOLDER))
    listed = [LogFile.parse(name) for name in names]
    commits = sorted(
        file.version for file in listed if file is not None and file.kind is LogFileKind.COMMIT
    )
    expected = list(range(row.log_floor, row.mirrored_through + 1))
    above = [version for version in commits if version >= row.log_floor]
    if above[: len(expected)] != expected:
        yield Violation("I5", f"the log holds {above[:20]}…, not {expected[:20]}…")
    for version in commits:
        if version > row.current_version:
            yield Violation("I4", f"{commit_key(version)} is above SQL's {row.current_version}")
        elif version < row.oldest_version:
            continue  # SQL has dropped its bytes, or never took them in
        elif digest(store.get(commit_key(version))) != digest(
            metastore.payload(row.table_id, version)
        ):
            yield Violation("I3", f"{commit_key(version)} holds other bytes than SQL")


def _checkpoints(connection: Connection, row: TableRow) -> Iterator[Violation]:
    """Every checkpoint that is recorded replays to what SQL has at its version."""
    writer = CheckpointWriter(connection.store_of(row))
    for file in connection.log_files.all(row.table_id):
        if file.kind != "checkpoint":
            continue
        source = CheckpointSource(connection.metastore.snapshot(row.table_id, version=file.version))
        try:
            with writer.fetch(file.version, file.digest) as (found, path):
                require_equal(found, path, source)
                if found.digest != file.digest:
                    yield Violation("I3", f"{file.key} holds other bytes than were recorded")
        except (CheckpointError, ObjectNotFoundError) as error:
            yield Violation("I3", f"{file.key}: {error.message}")


def _state(metastore: SqlCatalog, row: TableRow) -> Iterator[Violation]:
    state = TableState()
    for version in range(row.oldest_version, row.current_version + 1):
        state.apply(
            version, decode_commit(metastore.payload(row.table_id, version), version=version)
        )
    if row.oldest_version == 0 and set(state.files) != _files(metastore, row):
        yield Violation("I6", "the replayed log has other files than SQL")
    with metastore.database.read() as tx:
        rows = tx.fetch_all("rows_above", table_id=row.table_id, version=row.current_version)
    for kind, count in rows:
        if count:
            yield Violation("I4", f"{count} rows of {kind} are above version {row.current_version}")


def _files(metastore: SqlCatalog, row: TableRow) -> set[FileKey]:
    files = metastore.snapshot(row.table_id).files(["path", "dv_id"])
    paths, vectors = files.column("path").to_pylist(), files.column("dv_id").to_pylist()
    return {(path_key(path), vector) for path, vector in zip(paths, vectors, strict=True)}
