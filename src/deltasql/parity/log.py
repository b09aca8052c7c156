"""Is a table's log equal to SQL? Every commit, checkpoint and hint; and who else was there."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.checkpoint_source import CheckpointSource
from deltasql.catalog.log_files import LogFiles, RecordedFile
from deltasql.catalog.rows import TableRow
from deltasql.errors import CheckpointError, ObjectNotFoundError
from deltasql.log.checkpoint import CheckpointWriter
from deltasql.log.owner import OWNER_KEY
from deltasql.parity.checkpoints import require_equal
from deltasql.protocol.files import LAST_CHECKPOINT, LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.protocol.last_checkpoint import LastCheckpoint, decode_hint
from deltasql.storage.port import ObjectStore

_WORKERS = 8
_WINDOW = 1_000
_PIECE = 8 * 1024 * 1024


class Difference(enum.StrEnum):
    """In which way the log differs from SQL."""

    MISSING_COMMIT = "missing_commit"
    CHANGED_COMMIT = "changed_commit"
    FOREIGN_COMMIT = "foreign_commit"
    UNKNOWN_COMMIT = "unknown_commit"
    MISSING_FILE = "missing_file"
    CHANGED_FILE = "changed_file"
    FOREIGN_FILE = "foreign_file"
    WRONG_HINT = "wrong_hint"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a log and SQL, and what can be done about it."""

    difference: Difference
    key: str
    version: int | None
    detail: str

    @property
    def action(self) -> str:
        """What an operator does about it."""
        return _ACTIONS[self.difference]


_ACTIONS = {
    Difference.MISSING_COMMIT: "`deltasql mirror repair` puts the stored bytes again",
    Difference.CHANGED_COMMIT: "compare both; `deltasql mirror repair --replace` puts SQL's bytes "
    "and keeps the others aside",
    Difference.FOREIGN_COMMIT: "a writer bypassed SQL and took the number of a commit of ours; "
    "`deltasql mirror repair --replace` lets SQL win and keeps the other aside",
    Difference.UNKNOWN_COMMIT: "a writer bypassed SQL; `deltasql mirror repair --adopt` takes its "
    "commit into SQL",
    Difference.MISSING_FILE: "`deltasql mirror repair` writes it again",
    Difference.CHANGED_FILE: "`deltasql mirror repair` writes it again",
    Difference.FOREIGN_FILE: "somebody else put it there; readers may use it",
    Difference.WRONG_HINT: "`deltasql mirror repair` writes it again",
}


def compare_log(
    catalog: SqlCatalog, log_files: LogFiles, row: TableRow, store: ObjectStore
) -> list[Finding]:
    """Return how a table's log differs from SQL; an empty list means that they are equal.

    Versions that are not mirrored yet are no difference.
    """
    listed = {info.key: info.size for info in store.list_from(LOG_FOLDER)}
    recorded = {file.key: file for file in log_files.all(row.table_id)}
    found = list(_commits(catalog, row, store))
    found += _beyond(catalog, row, store, listed)
    found += [f for file in recorded.values() if (f := _side_file(file, store)) is not None]
    found += _strangers(catalog, row, store, listed, recorded)
    hint = _hint(store, recorded)
    return found if hint is None else [*found, hint]


def _commits(catalog: SqlCatalog, row: TableRow, store: ObjectStore) -> Iterator[Finding]:
    """Compare the digests of what is mirrored, many objects at a time."""
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="deltasql-verify") as pool:
        for first in range(row.log_floor, row.mirrored_through + 1, _WINDOW):
            last = min(first + _WINDOW - 1, row.mirrored_through)
            digests = catalog.digests(row.table_id, first, last)
            versions = range(first, last + 1)
            for version, seen in zip(
                versions, pool.map(lambda v: _digest(store, commit_key(v)), versions), strict=True
            ):
                if seen is None:
                    yield Finding(
                        Difference.MISSING_COMMIT, commit_key(version), version, "is not there"
                    )
                elif seen != digests.get(version):
                    yield Finding(
                        Difference.CHANGED_COMMIT,
                        commit_key(version),
                        version,
                        f"has the digest {seen[:12]}, SQL has {str(digests.get(version))[:12]}",
                    )


def _beyond(
    catalog: SqlCatalog, row: TableRow, store: ObjectStore, listed: dict[str, int]
) -> Iterator[Finding]:
    """Commits above what we mirrored: ours on their way, or a writer that bypassed SQL."""
    for key in sorted(listed):
        file = LogFile.parse(key.removeprefix(LOG_FOLDER))
        if file is None or file.kind is not LogFileKind.COMMIT:
            continue
        if file.version <= row.mirrored_through:
            continue
        wanted = catalog.digests(row.table_id, file.version, file.version).get(file.version)
        seen = _digest(store, key)
        if wanted is None and seen is not None:
            detail = f"SQL has the table up to {row.current_version}"
            yield Finding(Difference.UNKNOWN_COMMIT, key, file.version, detail)
        elif seen is not None and seen != wanted:
            detail = f"holds other bytes than version {file.version} in SQL"
            yield Finding(Difference.FOREIGN_COMMIT, key, file.version, detail)


def _side_file(file: RecordedFile, store: ObjectStore) -> Finding | None:
    seen = _digest(store, file.key)
    if seen is None:
        return Finding(Difference.MISSING_FILE, file.key, file.version, "is not there")
    if seen != file.digest:
        detail = f"has the digest {seen[:12]}, SQL has {file.digest[:12]}"
        return Finding(Difference.CHANGED_FILE, file.key, file.version, detail)
    return None


def _strangers(
    catalog: SqlCatalog,
    row: TableRow,
    store: ObjectStore,
    listed: dict[str, int],
    recorded: dict[str, RecordedFile],
) -> Iterator[Finding]:
    ours = {OWNER_KEY, LAST_CHECKPOINT, *recorded}
    for key in sorted(listed):
        file = LogFile.parse(key.removeprefix(LOG_FOLDER))
        is_commit = file is not None and file.kind is LogFileKind.COMMIT
        if key in ours or (is_commit and file is not None and file.version >= row.log_floor):
            continue
        if key.startswith(f"{LOG_FOLDER}_deltasql_"):
            continue
        if file is not None and _is_right_checkpoint(catalog, row, store, file):
            continue
        version = file.version if file is not None else None
        yield Finding(Difference.FOREIGN_FILE, key, version, "is not in SQL's list of the log")


def _is_right_checkpoint(
    catalog: SqlCatalog, row: TableRow, store: ObjectStore, file: LogFile
) -> bool:
    """A worker that died between its put and its record leaves a checkpoint that is right."""
    if file.kind is not LogFileKind.CHECKPOINT:
        return False
    if not row.log_floor <= file.version <= row.mirrored_through:
        return False
    source = CheckpointSource(catalog.snapshot(row.table_id, version=file.version))
    try:
        with CheckpointWriter(store).fetch(file.version) as (found, path):
            require_equal(found, path, source)
    except CheckpointError:
        return False
    return True


def _hint(store: ObjectStore, recorded: dict[str, RecordedFile]) -> Finding | None:
    newest = max(
        (file for file in recorded.values() if file.kind == "checkpoint"),
        key=lambda file: file.version,
        default=None,
    )
    try:
        hint = decode_hint(store.get(LAST_CHECKPOINT))
    except ObjectNotFoundError:
        detail = "is not there" if newest is not None else None
    else:
        detail = _hint_trouble(hint, newest)
    if detail is None:
        return None
    return Finding(
        Difference.WRONG_HINT, LAST_CHECKPOINT, newest.version if newest else None, detail
    )


def _hint_trouble(hint: LastCheckpoint | None, newest: RecordedFile | None) -> str | None:
    if hint is None:
        return "cannot be read, or its checksum is wrong"
    if newest is None:
        return f"names version {hint.version}; SQL knows of no checkpoint"
    wanted = LastCheckpoint(newest.version, newest.num_rows or 0, newest.size, newest.num_adds)
    return None if hint == wanted else f"does not describe the checkpoint of {newest.version}"


def _digest(store: ObjectStore, key: str) -> str | None:
    try:
        with store.open_input(key) as file:
            made = hashlib.sha256()
            while piece := file.read(_PIECE):
                made.update(piece)
    except ObjectNotFoundError:
        return None
    return made.hexdigest()
