"""A contest: numbers that both the log and SQL have given out, and what the log built on them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from deltasql.catalog.found_commit import FoundCommit
from deltasql.catalog.objects import vector_path
from deltasql.catalog.rows import TableRow
from deltasql.errors import (
    CorruptDataError,
    LogGapError,
    MirrorConflictError,
    ObjectNotFoundError,
    UnsafePathError,
)
from deltasql.log.segment import newest_commit
from deltasql.mirror.saved import read_whole
from deltasql.parity.log import Difference, Finding
from deltasql.protocol.actions import Action, Add, Cdc
from deltasql.protocol.files import LOG_FOLDER, LogFile, commit_key
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import ObjectStore

CONTESTED = frozenset({Difference.CHANGED_COMMIT, Difference.FOREIGN_COMMIT})
_FOREIGN = CONTESTED | {Difference.UNKNOWN_COMMIT}
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Contest:
    """The foreign commits of a log by their numbers, in order, and the files that go with them.

    `side_files` are checkpoints, checksums and compactions of others from the first contested
    number on: a reader that used one would read the foreign history. `newest` is the log's newest
    version.
    """

    commits: dict[int, Finding]
    side_files: tuple[Finding, ...]
    newest: int

    @property
    def first(self) -> int:
        """The lowest contested number."""
        return min(self.commits)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every file of the contest."""
        return (*self.commits.values(), *self.side_files)

    def taken_away(self, row: TableRow) -> list[int]:
        """Return the commits that go before ours are put, in the order in which they go.

        What lies above SQL's newest version goes, because it was built on what is replaced. So do
        the contested commits at the log's end, from the highest down: at each moment a reader
        sees the history of one side and never a mixture. The lowest of them is replaced by one
        put, if the log below it is SQL's.
        """
        tail: list[int] = []
        while self.newest - len(tail) in self.commits:
            tail.append(self.newest - len(tail))
        if tail and tail[-1] <= min(row.current_version, row.mirrored_through + 1):
            tail.pop()
        above = {version for version in self.commits if version > row.current_version}
        return sorted({*tail, *above}, reverse=True)


def find_contest(findings: Sequence[Finding], store: ObjectStore) -> Contest | None:
    """Return the contest among the differences of a log, or None if there is none."""
    commits = {f.version: f for f in findings if f.difference in _FOREIGN and f.version is not None}
    contested = [v for v, finding in commits.items() if finding.difference in CONTESTED]
    if not contested:
        return None
    first = min(contested)
    foreign = {version: commits[version] for version in sorted(commits) if version >= first}
    newest = max(newest_commit(store) or 0, *foreign)
    return Contest(foreign, tuple(f for f in findings if _is_built_on(f, first)), newest)


def _is_built_on(finding: Finding, first: int) -> bool:
    name = finding.key.removeprefix(LOG_FOLDER)
    if name.startswith("."):  # Hadoop's checksum of a file on a local disk: wrong once it changes
        name = name.removeprefix(".").removesuffix(".crc")
    file = LogFile.parse(name)
    is_foreign = finding.difference is Difference.FOREIGN_FILE
    return is_foreign and file is not None and file.last_version >= first


def read_contest(row: TableRow, store: ObjectStore, contest: Contest) -> tuple[FoundCommit, ...]:
    """Return the foreign commits of a contest, whole.

    Raises:
        LogGapError: the log lacks a version below or between them.
        MalformedActionError: one of them cannot be understood.
    """
    for version in range(min(row.mirrored_through + 1, contest.first), contest.newest):
        if version not in contest.commits and not _is_there(store, version):
            raise LogGapError(
                f"The log of {row.full_name} lacks version {version} and holds version "
                f"{contest.newest}.",
                hint="What a foreign writer left with a gap cannot be committed again; "
                "`deltasql mirror repair` with `replace=True` lets SQL win and keeps it aside.",
                table=row.full_name,
                version=version,
            )
    return tuple(
        FoundCommit.read(version, read_whole(store, commit_key(version)))
        for version in contest.commits
    )


def _is_there(store: ObjectStore, version: int) -> bool:
    try:
        store.head(commit_key(version))
    except ObjectNotFoundError:
        return False
    return True


def refuse_newer(row: TableRow, store: ObjectStore, contest: Contest) -> None:
    """Make sure that no foreign commit came since the contest was looked at.

    Left above SQL's commits, it would pass for one that was built on them.

    Raises:
        MirrorConflictError: the foreign writer is still at work.
    """
    if _is_there(store, contest.newest + 1):
        raise MirrorConflictError(
            f"The log of {row.full_name} got version {contest.newest + 1} while it was repaired.",
            hint="Stop the foreign writer, then repair again.",
            table=row.full_name,
            version=contest.newest + 1,
        )


def find_absent_file(store: ObjectStore, actions: Sequence[Action]) -> str | None:
    """Return which file that a commit names is not there, or None; files that it removes may go."""
    try:
        wanted = [pair for action in actions for pair in _objects(action)]
    except (CorruptDataError, UnsafePathError) as error:
        return error.message.removesuffix(".")
    with ThreadPoolExecutor(min(_THREADS, max(len(wanted), 1))) as pool:
        for trouble in pool.map(partial(_trouble, store), wanted):
            if trouble is not None:
                return trouble
    return None


def _objects(action: Action) -> list[tuple[str, int | None]]:
    """Return the paths of the objects that an action brings, with the sizes that it states."""
    match action:
        case Add(path=path, size=size, deletion_vector=vector):
            found: list[tuple[str, int | None]] = [(path, size)]
            vector_file = vector_path(vector) if vector is not None else None
            return found if vector_file is None else [*found, (vector_file, None)]
        case Cdc(path=path, size=size):
            return [(path, size)]
    return []


def _trouble(store: ObjectStore, wanted: tuple[str, int | None]) -> str | None:
    path, size = wanted
    try:
        place = resolve_path(path)
        if not isinstance(place, RelativeKey):
            return f"its file {path} lies outside the table"
        stored = store.head(place.key).size
    except UnsafePathError as error:
        return error.message.removesuffix(".")
    except ObjectNotFoundError:
        return f"its file {path} is not there"
    if size is not None and stored != size:
        return f"its file {path} has {stored} bytes, and the commit says {size}"
    return None
