"""Settle a contested version: commit a foreign commit again, replace it, or keep it aside.

The order is the same each time, and every step can be repeated after a crash: keep the foreign
bytes aside, commit them in SQL (`recommit` only), take away what lies above, put SQL's commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from deltasql.crash import crash_point
from deltasql.errors import (
    CorruptDataError,
    DeltaSqlError,
    LeaseLostError,
    LogGapError,
    MirrorConflictError,
    MirrorError,
    ObjectNotFoundError,
    RecommitError,
    StorageUnavailableError,
    TableStateError,
    UnsafePathError,
)
from deltasql.log.commits import newest_commit
from deltasql.metastore.commit.encode import FoundCommit
from deltasql.metastore.commit.recommit import RecommitPlan, Recommitter
from deltasql.metastore.leases import Lease
from deltasql.metastore.references import vector_path
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.checkpoints.write import Checkpointer
from deltasql.mirror.compare import Difference, Finding
from deltasql.mirror.engine import Mirrored, MirrorEngine
from deltasql.protocol.actions import Action, Add, Cdc
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind, commit_key
from deltasql.storage.paths import RelativeKey, resolve_path
from deltasql.storage.port import Created, ObjectStore, create_once

SAVED = f"{LOG_FOLDER}_deltasql_saved/"

CONTESTED = frozenset({Difference.COMMIT_BYTES_DIFFER, Difference.COMMIT_CONFLICT})
_FOREIGN = CONTESTED | {Difference.COMMIT_NOT_IN_CATALOG}
_THREADS = 16

PURPOSE = "repair"
_DRAIN_S = 60.0
_CHECKPOINTS = frozenset({LogFileKind.CHECKPOINT, LogFileKind.MULTIPART, LogFileKind.V2})


def read_whole(store: ObjectStore, key: str) -> bytes:
    """Return an object, all of it: half of a foreign commit must not pass for the commit.

    Raises:
        ObjectNotFoundError: there is none.
        StorageUnavailableError: only a part came back.
    """
    data, size = store.get(key), store.head(key).size
    if len(data) != size:
        raise StorageUnavailableError(f"Only a part of {key} came back.", key=key)
    return data


def saved_key(key: str, data: bytes) -> str:
    """Return where bytes of a log's file are kept; other bytes have another place."""
    return f"{SAVED}{key.removeprefix(LOG_FOLDER)}.{digest(data)[:12]}"


def keep_aside(store: ObjectStore, key: str, data: bytes) -> str:
    """Copy the bytes of a file to their place aside and return it; safe to repeat.

    What is kept is never overwritten.

    Raises:
        MirrorError: other bytes are there; nothing was changed.
    """
    kept = saved_key(key, data)
    if create_once(store, kept, data) is Created.DIFFERENT or read_whole(store, kept) != data:
        raise MirrorError(
            f"{kept} at {store.uri} does not hold the bytes of {key} that its name says.",
            hint="Nothing was replaced. Move that file away, then repair again.",
            key=kept,
        )
    crash_point("foreign-kept-aside")
    return kept


def require_unchanged(store: ObjectStore, key: str, data: bytes) -> None:
    """Make sure that a file still holds the bytes that were kept aside.

    Raises:
        MirrorConflictError: somebody has written it since.
    """
    if store.get(key) != data:
        raise MirrorConflictError(
            f"{key} at {store.uri} was written again while the log was repaired.",
            hint="Stop the foreign writer, then repair again.",
            key=key,
        )


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


@dataclass(frozen=True, slots=True)
class Repaired:
    """A difference, and what was done about it; `done` is false where somebody must decide."""

    finding: Finding
    done: bool
    what: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """Plans and makes the end of a contest."""

    engine: MirrorEngine
    checkpointer: Checkpointer
    recommitter: Recommitter

    def plan_replace(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what `replace` would do."""
        words = self._words_of_replace(row, contest)
        return [
            Repaired(f, done=True, what=f"{words[f.key]}; its bytes are kept in {_saved(store, f)}")
            for f in contest.findings
        ]

    def plan_recommit(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what `recommit` would do, or what stands in its way."""
        replaced = {one.finding.key: one for one in self.plan_replace(row, store, contest)}
        try:
            plan = self._plan(row, store, contest)
        except DeltaSqlError as error:  # a gap, or a commit that cannot be read
            words = f"cannot be committed again: {error.message.removesuffix('.')}"
            return [replace(one, done=False, what=words) for one in replaced.values()]
        rows = []
        for commit in plan.commits:
            one = replaced.pop(contest.commits[commit.found.version].key)
            words = f"cannot be committed again: {commit.obstacle}"
            if commit.obstacle is None:
                became = "is" if commit.was_made else "becomes"
                words = f"{became} version {commit.version} of SQL; {one.what}"
            rows.append(replace(one, done=plan.is_possible, what=words))
        return rows + [replace(one, done=plan.is_possible) for one in replaced.values()]

    def plan_both(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what either way would do; nothing is done while nobody has decided."""
        words = self._words_of_replace(row, contest)
        recommit = {one.finding.key: one.what for one in self.plan_recommit(row, store, contest)}
        return [
            Repaired(f, done=False, what=f"replace: {words[f.key]}; recommit: {recommit[f.key]}")
            for f in contest.findings
        ]

    def replace(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Put SQL's commits in place of the foreign ones, which are kept aside."""
        with self._alone(row) as lease:
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            payloads = {f.key: read_whole(store, f.key) for f in contest.commits.values()}
            done = self._replace(row, store, contest, lease, payloads)
            self._open_again(row)
        return done

    def recommit(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Commit the foreign commits as new versions of SQL, then replace them in the log.

        Raises:
            RecommitError, LogGapError, MalformedActionError: one cannot be committed again;
                nothing was changed.
        """
        self._plan(row, store, contest).require()
        with self._alone(row) as lease:
            # planned again: from here on no vacuum marks a file and no commit takes a version
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            plan = self._plan(row, store, contest)
            plan.require()
            found = [commit.found for commit in plan.commits]
            payloads = {contest.commits[one.version].key: one.payload for one in found}
            for key, payload in payloads.items():
                keep_aside(store, key, payload)
            plan = self.recommitter.commit(row.table_id, found)
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            done = self._replace(row, store, contest, lease, payloads)
            self._open_again(row)
        versions = {contest.commits[c.found.version].key: c.version for c in plan.commits}
        return [
            replace(one, what=f"is version {versions[one.finding.key]} of SQL; {one.what}")
            if one.finding.key in versions
            else one
            for one in done
        ]

    def _plan(self, row: TableRow, store: ObjectStore, contest: Contest) -> RecommitPlan:
        """Judge the commits in SQL first: a file that no vacuum has marked by now stays."""
        plan = self.recommitter.plan(row, read_contest(row, store, contest))
        commits = [
            replace(one, obstacle=find_absent_file(store, one.found.actions))
            if one.obstacle is None and not one.was_made
            else one
            for one in plan.commits
        ]
        return replace(plan, commits=tuple(commits))

    def _replace(
        self,
        row: TableRow,
        store: ObjectStore,
        contest: Contest,
        lease: Lease,
        payloads: dict[str, bytes],
    ) -> list[Repaired]:
        """Make the log SQL's own again, from its end down and then up.

        Only bytes that were read before are replaced; a file that has others by now stays.
        """
        bytes_of = payloads | {f.key: read_whole(store, f.key) for f in contest.side_files}
        kept = {key: keep_aside(store, key, data) for key, data in bytes_of.items()}
        refuse_newer(row, store, contest)
        self._take_files_away(row, store, contest, bytes_of)
        taken = contest.taken_away(row)
        for version in taken:
            self.checkpointer.connection.leases.renew(lease)
            _delete(store, contest.commits[version].key, bytes_of)
            crash_point("foreign-taken-away")
        refuse_newer(row, store, contest)
        for version, finding in contest.commits.items():
            if version not in taken:
                self.checkpointer.connection.leases.renew(lease)
                require_unchanged(store, finding.key, bytes_of[finding.key])
                store.put(
                    finding.key, self.engine.connection.metastore.payload(row.table_id, version)
                )
                crash_point("foreign-replaced")
        for version in reversed(taken):
            if version <= row.mirrored_through:  # what is above follows by the mirror
                self.engine.put_again(row, version)
        words = self._words_of_replace(row, contest)
        return [
            Repaired(f, done=True, what=f"{words[f.key]}; its bytes are at {kept[f.key]}")
            for f in contest.findings
        ]

    def _take_files_away(
        self, row: TableRow, store: ObjectStore, contest: Contest, bytes_of: dict[str, bytes]
    ) -> None:
        """Take away what readers would use of the foreign history: checkpoints, checksums."""
        if any(_kind(finding) in _CHECKPOINTS for finding in contest.side_files):
            self.checkpointer.hint_again(row)
        for finding in contest.side_files:
            _delete(store, finding.key, bytes_of)
            crash_point("foreign-file-taken-away")

    def _words_of_replace(self, row: TableRow, contest: Contest) -> dict[str, str]:
        words = {finding.key: "taken away" for finding in contest.side_files}
        for version, finding in contest.commits.items():
            is_ours = version <= row.current_version
            words[finding.key] = "SQL's commit is put" if is_ours else "taken away"
        return words

    def _open_again(self, row: TableRow) -> None:
        """Mirror what waits, then let commits in: the log holds nothing foreign any more."""
        engine = self.engine
        engine.tracker.reset(row.table_id, now=engine.connection.now_ms())
        if engine.catch_up(row.table_id, seconds=_DRAIN_S).outcome is Mirrored.CONFLICT:
            return
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        engine.connection.metastore.set_state(row.table_id, active, expected=[conflict])

    @contextmanager
    def _alone(self, row: TableRow) -> Iterator[Lease]:
        """Let nobody else repair the log and nobody commit meanwhile.

        The table stays in conflict when this fails half way; a refusal leaves it as it was.
        """
        leases = self.checkpointer.connection.leases
        lease = leases.acquire(row.table_id, PURPOSE)
        if lease is None:
            raise LeaseLostError(
                f"Another process is repairing the log of {row.full_name}.",
                hint="Wait until it has ended, or a minute if it was killed; then repair again.",
                table=row.full_name,
            )
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        try:
            if row.state is active:
                self.engine.connection.metastore.set_state(
                    row.table_id, conflict, expected=[active, conflict]
                )
            yield lease
        except RecommitError:
            if row.state is active:
                with suppress(TableStateError):
                    self.engine.connection.metastore.set_state(
                        row.table_id, active, expected=[conflict]
                    )
            raise
        finally:
            leases.release(lease)


def _delete(store: ObjectStore, key: str, bytes_of: dict[str, bytes]) -> None:
    with suppress(ObjectNotFoundError):
        require_unchanged(store, key, bytes_of[key])
        store.delete(key)


def _saved(store: ObjectStore, finding: Finding) -> str:
    try:
        return saved_key(finding.key, store.get(finding.key))
    except ObjectNotFoundError:
        return saved_key(finding.key, b"")


def _kind(finding: Finding) -> LogFileKind | None:
    file = LogFile.parse(finding.key.removeprefix(LOG_FOLDER))
    return None if file is None else file.kind
