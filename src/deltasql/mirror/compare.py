"""Is a table's log equal to SQL? Every commit, checkpoint and pointer, and the data files on
demand.

Are the live data files of a table on its store, with the sizes that the log records? A recorded
size that is too small makes Spark miss the row groups at the end of a file, without an error; one
that is too large costs a reader a request.
"""

from __future__ import annotations

import enum
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from deltasql.errors import (
    CheckpointError,
    MalformedActionError,
    ObjectNotFoundError,
    UnsafePathError,
)
from deltasql.log.checkpoint_writer import CheckpointWriter
from deltasql.log.commits import object_digest
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner
from deltasql.metastore.log_state import INHERITED, LogFiles, RecordedFile
from deltasql.metastore.registry import SqlCatalog
from deltasql.metastore.snapshot.checkpoint_source import CheckpointSource
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.checkpoints.check import require_equal
from deltasql.mirror.object_tags import CommitTag, FileTag, FullCheck
from deltasql.protocol.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltasql.protocol.codec import decode_commit, digest
from deltasql.protocol.log_names import (
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_CHECKSUM,
    LOG_FOLDER,
    LastCheckpoint,
    LogFile,
    LogFileKind,
    commit_key,
    decode_hint,
)
from deltasql.protocol.stats.parse import parse_stats
from deltasql.storage.paths import resolve_path
from deltasql.storage.port import ObjectStore, ObjectTag

_LONGEST_WORD = 60

_MORE_LOOKS, _PAUSE_S = 3, 0.2
_WORKERS = 8
_WINDOW = 1_000

_Listed = dict[str, ObjectTag | None]

_OTHERS_FILE = (
    "another writer left it and no reader needs it; `deltasql mirror repair` forgets it, and keeps "
    "changed bytes aside"
)


def describe_commit(payload: bytes, version: int) -> str:
    """Return what a commit does, in a line; bytes that are no commit are told as such."""
    mark = digest(payload)[:12]
    try:
        actions = decode_commit(payload, version=version, lenient=True)
    except MalformedActionError as error:
        return f"{mark} is no commit (line {error.context.get('line')})"
    info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo())
    operation = _word(info.operation) or "no operation"
    who = _word(info.user_name) or _word(info.engine_info)
    parts = [f"{operation} by {who}" if who else operation, *_counts(actions)]
    return f"{mark} {', '.join(parts)}"


def _counts(actions: Sequence[Action]) -> list[str]:
    adds = [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    counts = [f"{len(adds)} added" + _rows(adds), f"{len(removes)} removed"]
    names = {Metadata: "metadata", Protocol: "protocol", DomainMetadata: "domain", Txn: "txn"}
    return counts + [name for kind, name in names.items() if any(type(a) is kind for a in actions)]


def _rows(adds: Sequence[Add]) -> str:
    stats = [parse_stats(add.stats) for add in adds]
    counts = [found.num_records if found else None for found in stats]
    if not adds or any(count is None for count in counts):
        return ""
    return f" ({sum(count or 0 for count in counts)} rows)"


def _word(value: object) -> str:
    """A log may hold anything: a word is short and printable."""
    if not isinstance(value, str):
        return ""
    kept = "".join(each for each in value if each.isprintable())
    return kept if len(kept) <= _LONGEST_WORD else f"{kept[:_LONGEST_WORD]}…"


class Difference(enum.StrEnum):
    """In which way the log differs from SQL."""

    MISSING_COMMIT = "missing_commit"
    COMMIT_BYTES_DIFFER = "commit_bytes_differ"
    COMMIT_CONFLICT = "commit_conflict"
    COMMIT_NOT_IN_CATALOG = "commit_not_in_catalog"
    MISSING_FILE = "missing_file"
    CHANGED_FILE = "changed_file"
    FOREIGN_FILE = "foreign_file"
    LAST_CHECKPOINT_WRONG = "last_checkpoint_wrong"
    WRONG_OWNER = "wrong_owner"
    MISSING_DATA_FILE = "missing_data_file"
    WRONG_DATA_SIZE = "wrong_data_size"


def is_checkpoint(key: str) -> bool:
    """Tell whether a file of the log can be written anew from SQL."""
    file = LogFile.parse(key.removeprefix(LOG_FOLDER))
    return file is not None and file.kind is LogFileKind.CHECKPOINT


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
        is_side_file = self.difference in {Difference.MISSING_FILE, Difference.CHANGED_FILE}
        if is_side_file and not is_checkpoint(self.key):
            return _OTHERS_FILE
        return _ACTIONS[self.difference]


_ACTIONS = {
    Difference.MISSING_COMMIT: "`deltasql mirror repair` puts the stored bytes again",
    Difference.COMMIT_BYTES_DIFFER: "compare both; `deltasql mirror repair` with `replace=True` "
    "puts SQL's bytes and keeps the others aside, `recommit=True` also commits them above SQL's",
    Difference.COMMIT_CONFLICT: "a writer bypassed SQL and took the number of a commit of SQL; "
    "`deltasql mirror repair` with `replace=True` puts SQL's commit and keeps the other aside, "
    "`recommit=True` also commits it above SQL's",
    Difference.COMMIT_NOT_IN_CATALOG: "a writer bypassed SQL; `deltasql mirror repair` with "
    "`adopt=True` takes its commit into SQL",
    Difference.MISSING_FILE: "`deltasql mirror repair` writes it again",
    Difference.CHANGED_FILE: "`deltasql mirror repair` writes it again",
    Difference.FOREIGN_FILE: "somebody else put it there; readers may use it",
    Difference.LAST_CHECKPOINT_WRONG: "`deltasql mirror repair` writes it again",
    Difference.WRONG_OWNER: "nothing is mirrored here while it is so; `deltasql recover` makes the "
    "log this catalog's own and fences off any other",
    Difference.MISSING_DATA_FILE: "bring it back from a backup, or restore or overwrite the table",
    Difference.WRONG_DATA_SIZE: "Spark may miss rows of it: commit the add again with the true "
    "size (`Table.commit`)",
}


@dataclass(frozen=True, slots=True)
class VerifyThrottle:
    """How hard a comparison works: how many objects are read, and what happens before each."""

    workers: int = _WORKERS
    before_each: Callable[[], None] = lambda: None
    pause: Callable[[float], None] = time.sleep
    check: FullCheck = field(default_factory=FullCheck)


def compare_log(
    catalog: SqlCatalog,
    log_files: LogFiles,
    row: TableRow,
    store: ObjectStore,
    effort: VerifyThrottle | None = None,
) -> list[Finding]:
    """Return how a table's log differs from SQL; an empty list means that they are equal.

    Versions that are not mirrored yet are no difference.
    """
    effort = effort or VerifyThrottle()
    listed = {info.key: info.tag for info in store.list_from(LOG_FOLDER)}
    recorded = {
        file.key: file
        for file in log_files.all(row.table_id)
        if file.key != LAST_CHECKPOINT_CHECKSUM  # noted by catalogs of old
    }
    found = list(_commits(catalog, row, store, listed, effort))
    found += _beyond(catalog, row, store, listed)
    found += _side_files(recorded.values(), store, listed, effort)
    found += _strangers(catalog, row, store, listed, recorded)
    beside = (_settled_hint(log_files, row, store, effort), _owner(catalog, row, store))
    return found + [one for one in beside if one is not None]


def _commits(
    catalog: SqlCatalog, row: TableRow, store: ObjectStore, listed: _Listed, effort: VerifyThrottle
) -> Iterator[Finding]:
    """Compare what is mirrored by tags or digests, many objects at a time."""

    def digest_of(version: int) -> str | None:
        effort.before_each()
        return object_digest(store, commit_key(version))

    with ThreadPoolExecutor(effort.workers, thread_name_prefix="deltasql-verify") as pool:
        for first in range(row.log_floor, row.mirrored_through + 1, _WINDOW):
            last = min(first + _WINDOW - 1, row.mirrored_through)
            effort.before_each()  # also where nothing has to be read
            digests = catalog.digests(row.table_id, first, last)
            known = effort.check.commit_tags(first, last)
            versions = [
                version
                for version in range(first, last + 1)
                if effort.check.must_read(
                    version, listed.get(commit_key(version)), known.get(version)
                )
            ]
            read = dict(zip(versions, pool.map(digest_of, versions), strict=True))
            effort.check.remember(commits=_news_of_commits(read, digests, listed, known))
            for version, seen in read.items():
                key = commit_key(version)
                if seen is None:
                    yield Finding(Difference.MISSING_COMMIT, key, version, "is not there")
                elif seen != digests.get(version):
                    detail = _contrast(catalog, row, store, version)
                    yield Finding(Difference.COMMIT_BYTES_DIFFER, key, version, detail)


def _news_of_commits(
    read: dict[int, str | None],
    digests: dict[int, str],
    listed: _Listed,
    known: dict[int, ObjectTag],
) -> list[CommitTag]:
    """Return what the objects that were read say otherwise than SQL remembers.

    The tag is that of the listing before the read. Where the object was written in between, the
    next listing has another one.
    """
    news = []
    for version, wanted in digests.items():
        if version not in read:
            continue
        tag = listed.get(commit_key(version)) if read[version] == wanted else None
        if tag != known.get(version):
            news.append(CommitTag(version, wanted, tag))
    return news


def _beyond(
    catalog: SqlCatalog, row: TableRow, store: ObjectStore, listed: _Listed
) -> Iterator[Finding]:
    """Commits above what we mirrored: ours on their way, or a writer that bypassed SQL."""
    for key in sorted(listed):
        file = LogFile.parse(key.removeprefix(LOG_FOLDER))
        if file is None or file.kind is not LogFileKind.COMMIT:
            continue
        if file.version <= row.mirrored_through:
            continue
        wanted = catalog.digests(row.table_id, file.version, file.version).get(file.version)
        seen = object_digest(store, key)
        if wanted is None and seen is not None:
            told = _words(store, key, file.version)
            detail = f"SQL has the table up to {row.current_version}; log: {told}"
            yield Finding(Difference.COMMIT_NOT_IN_CATALOG, key, file.version, detail)
        elif seen is not None and seen != wanted:
            detail = _contrast(catalog, row, store, file.version)
            yield Finding(Difference.COMMIT_CONFLICT, key, file.version, detail)


def _contrast(catalog: SqlCatalog, row: TableRow, store: ObjectStore, version: int) -> str:
    """Tell what a contested version does on either side."""
    ours = describe_commit(catalog.payload(row.table_id, version), version)
    return f"log: {_words(store, commit_key(version), version)}; SQL: {ours}"


def _words(store: ObjectStore, key: str, version: int) -> str:
    try:
        return describe_commit(store.get(key), version)
    except ObjectNotFoundError:
        return "gone again"


def _side_files(
    recorded: Collection[RecordedFile], store: ObjectStore, listed: _Listed, effort: VerifyThrottle
) -> Iterator[Finding]:
    """Compare checkpoints and what was inherited, by tags or digests."""
    for file in recorded:
        effort.before_each()
        tag = listed.get(file.key)
        known = ObjectTag(file.size, file.e_tag) if file.e_tag else None
        # not by its version: checkpoints have round ones, and would all have the same few turns
        if not effort.check.must_read(zlib.crc32(file.key.encode()), tag, known):
            continue
        seen = object_digest(store, file.key)
        tag = tag if seen == file.digest else None
        if tag != known:
            effort.check.remember(files=[FileTag(file.key, file.digest, tag)])
        if seen is None:
            yield Finding(Difference.MISSING_FILE, file.key, file.version, "is not there")
        elif seen != file.digest:
            detail = f"has the digest {seen[:12]}, SQL has {file.digest[:12]}"
            yield Finding(Difference.CHANGED_FILE, file.key, file.version, detail)


def _strangers(
    catalog: SqlCatalog,
    row: TableRow,
    store: ObjectStore,
    listed: _Listed,
    recorded: dict[str, RecordedFile],
) -> Iterator[Finding]:
    ours = {OWNER_KEY, LAST_CHECKPOINT, *recorded}
    if not any(file.kind == "checkpoint" for file in recorded.values()):
        ours.add(LAST_CHECKPOINT_CHECKSUM)  # the hint is still another writer's, and so is this
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


def _owner(catalog: SqlCatalog, row: TableRow, store: ObjectStore) -> Finding | None:
    """A marker that is gone comes back with the next put; one that says otherwise stays."""
    if row.state is TableState.DETACHED:
        return None
    identity = catalog.identity
    wanted = encode_owner(Owner(identity.catalog_id, identity.epoch, row.table_id))
    try:
        is_ours = store.get(OWNER_KEY) == wanted
    except ObjectNotFoundError:
        return None
    detail = "names another catalog, table or epoch, or is damaged"
    return None if is_ours else Finding(Difference.WRONG_OWNER, OWNER_KEY, None, detail)


def _settled_hint(
    log_files: LogFiles, row: TableRow, store: ObjectStore, effort: VerifyThrottle
) -> Finding | None:
    """Compare the hint; one that is wrong is looked at again, because a writer may be about to
    move it: a checkpoint is put, recorded and hinted one after the other.
    """
    found = _hint(store, log_files.all(row.table_id))
    for _ in range(_MORE_LOOKS):
        if found is None:
            break
        effort.pause(_PAUSE_S)
        found = _hint(store, log_files.all(row.table_id))
    return found


def _hint(store: ObjectStore, recorded: Collection[RecordedFile]) -> Finding | None:
    newest = max(
        (file for file in recorded if file.kind == "checkpoint"),
        key=lambda file: file.version,
        default=None,
    )
    inherited = {file.version for file in recorded if file.kind == INHERITED}
    try:
        hint = decode_hint(store.get(LAST_CHECKPOINT))
    except ObjectNotFoundError:
        detail = "is not there" if newest is not None else None
    else:
        is_inherited = newest is None and hint is not None and hint.version in inherited
        detail = None if is_inherited else _hint_trouble(hint, newest)
    if detail is None:
        return None
    return Finding(
        Difference.LAST_CHECKPOINT_WRONG,
        LAST_CHECKPOINT,
        newest.version if newest else None,
        detail,
    )


def _hint_trouble(hint: LastCheckpoint | None, newest: RecordedFile | None) -> str | None:
    if hint is None:
        return "cannot be read, or its checksum is wrong"
    if newest is None:
        return f"names version {hint.version}; SQL knows of no checkpoint"
    wanted = LastCheckpoint(newest.version, newest.num_rows or 0, newest.size, newest.num_adds)
    return None if hint == wanted else f"does not describe the checkpoint of {newest.version}"


def compare_data_files(catalog: SqlCatalog, row: TableRow, store: ObjectStore) -> list[Finding]:
    """Return the files of the newest version that are missing or have another size.

    The store is listed once. Files outside of the table's root are not looked at.
    """
    recorded = _recorded_sizes(catalog.snapshot(row.table_id), store)
    for info in store.list_from(""):
        if recorded.get(info.key) == info.size:
            del recorded[info.key]
    if not recorded:
        return []
    # a file that a commit has removed since then may be gone by right
    live = _recorded_sizes(catalog.snapshot(row.table_id), store)
    suspects = {key: size for key, size in recorded.items() if live.get(key) == size}
    version = row.current_version
    return list(_findings(suspects, version, store))


def _recorded_sizes(snapshot: Snapshot, store: ObjectStore) -> dict[str, int]:
    files = snapshot.files(("path", "size"))
    pairs = zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)
    found = ((_key(path, store), size) for path, size in pairs)
    return {key: size for key, size in found if key is not None}


def _key(path: str, store: ObjectStore) -> str | None:
    try:
        return resolve_path(path, allowed_roots=(store.uri,)).key
    except UnsafePathError:
        return None


def _findings(recorded: dict[str, int], version: int, store: ObjectStore) -> Iterator[Finding]:
    for key, size in recorded.items():
        try:
            stored = store.head(key).size
        except ObjectNotFoundError:
            yield Finding(Difference.MISSING_DATA_FILE, key, version, "is not there")
            continue
        if stored != size:
            detail = f"has {stored} bytes, SQL and the log record {size}"
            yield Finding(Difference.WRONG_DATA_SIZE, key, version, detail)
