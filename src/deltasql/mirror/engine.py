"""MirrorEngine: put versions' stored bytes to `_delta_log`, in order, exactly once.

The attempt right after a commit, the worker's and the repair's end in the same put. JSON needs no
lease: everybody puts the same bytes, and `mirrored_through` keeps the order.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.object_tags import CommitTag
from deltasql.catalog.payloads import StoredCommit
from deltasql.catalog.rows import TableRow
from deltasql.crash import crash_point
from deltasql.errors import (
    CatalogCorruptError,
    DeltaSqlError,
    MirrorConflictError,
    OwnershipError,
    ProtocolError,
    StorageError,
)
from deltasql.events import (
    MirrorConflicted,
    MirrorFailed,
    Sink,
    TableFenced,
    VersionMirrored,
    discard,
)
from deltasql.log.writer import write_commit
from deltasql.mirror.ownership import Ownership
from deltasql.mirror.retries import RetryPolicy
from deltasql.protocol.codec import digest
from deltasql.protocol.files import commit_key
from deltasql.storage.port import ObjectStore, ObjectTag

# A batch is recorded as one: so much work at most is found to be done already after a crash.
BATCH_VERSIONS = 200
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_S = 1.0


class Mirrored(enum.Enum):
    """How an attempt to mirror a version ended."""

    DONE = "done"
    ALREADY = "already"
    BLOCKED = "blocked"
    FAILED = "failed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """The end of an attempt, with its error where there was one; `count` versions are new.

    `newest` is the newest version in SQL as seen by whoever moved the log on, else None.
    """

    outcome: Mirrored
    version: int
    error: DeltaSqlError | None = None
    count: int = 0
    attempts: int = 0
    newest: int | None = None


@dataclass(frozen=True, slots=True)
class _Put:
    """The end of a put; `tag` where the store's answer had one."""

    error: DeltaSqlError | None = None
    tag: ObjectTag | None = None


@dataclass(slots=True)
class MirrorEngine:
    """Mirrors versions of the tables of one catalog; safe to use from many threads."""

    catalog: SqlCatalog
    open_store: Callable[[TableRow], ObjectStore]
    tracker: MirrorStatusTracker
    sink: Sink = discard
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    ownership: Ownership = field(init=False)

    def __post_init__(self) -> None:
        self.ownership = Ownership(self.catalog, self.clock)

    def mirror_version(
        self, row: TableRow, version: int, payload: bytes | None = None
    ) -> MirrorResult:
        """Mirror one version of a table; never raises for what a store may do.

        `row` tells how far the log was when it was read; `payload` saves reading the stored
        bytes again where the caller has just committed them.
        """
        if version <= row.mirrored_through:
            return MirrorResult(Mirrored.ALREADY, version)
        if version != row.mirrored_through + 1 or version < row.log_floor:
            return MirrorResult(Mirrored.BLOCKED, version)
        stored = payload if payload is not None else self.catalog.payload(row.table_id, version)
        started = self.monotonic()
        put = self._put(row, version, stored)
        if put.error is not None:
            return self._ended(row, version, put.error)
        crash_point("before-mirror-status")
        newest = self.tracker.mark_success(
            row.table_id,
            version,
            json_written=True,
            checkpoint_written=False,
            now=self.clock(),
            digest=digest(stored),
            tag=put.tag,
        )
        crash_point("after-mirror-status")
        if newest is None:
            self._take_back(row, (version,))
        self._tell(row, version, (self.monotonic() - started) * 1000)
        return MirrorResult(Mirrored.DONE, version, count=1, newest=newest)

    def mirror_batch(self, row: TableRow, most: int = BATCH_VERSIONS) -> MirrorResult:
        """Mirror the next versions of a table in order and record them together."""
        first = row.mirrored_through + 1
        if first > row.current_version:
            return MirrorResult(Mirrored.ALREADY, row.mirrored_through)
        error = None
        deadline = self.monotonic() + _BATCH_S
        done: list[tuple[StoredCommit, ObjectTag | None]] = []
        for commit in self._next_commits(row, first, most):
            put = self._put(row, commit.version, commit.payload)
            error = put.error
            if error is not None:
                break
            done.append((commit, put.tag))
            if self.monotonic() >= deadline:
                break
        self._record(row, done)
        last = first + len(done) - 1
        if error is not None:
            result = self._ended(row, last + 1, error)
            return MirrorResult(
                result.outcome, result.version, result.error, len(done), result.attempts
            )
        return MirrorResult(Mirrored.DONE, last, count=len(done))

    def catch_up(self, table_id: str, *, seconds: float, most: int | None = None) -> MirrorResult:
        """Mirror what is missing, in order, until done, an error, or the time is over."""
        deadline = self.monotonic() + seconds
        row = self.catalog.table_by_id(table_id)
        result = MirrorResult(Mirrored.ALREADY, row.mirrored_through)
        left = most if most is not None else row.current_version - row.mirrored_through
        while row.mirrored_through < row.current_version and left > 0:
            result = self.mirror_batch(row, min(left, BATCH_VERSIONS))
            if result.outcome is not Mirrored.DONE:
                return result
            left -= result.count
            if self.monotonic() >= deadline:
                break
            row = self.catalog.table_by_id(table_id)
        return result

    def _next_commits(self, row: TableRow, first: int, most: int) -> list[StoredCommit]:
        last = min(row.current_version, first + most - 1)
        found = self.catalog.stored_commits(row.table_id, first, last, most_bytes=_BATCH_BYTES)
        versions = [commit.version for commit in found]
        if versions != list(range(first, first + len(found))) or not found:
            raise CatalogCorruptError(
                f"Table {row.full_name} lacks version {first} or one after it in SQL.",
                table=row.full_name,
                version=first,
            )
        return found

    def _put(self, row: TableRow, version: int, payload: bytes) -> _Put:
        try:
            store = self.open_store(row)
            self.ownership.ensure(row, store)
            return _Put(tag=write_commit(store, version, payload).tag)
        except (StorageError, ProtocolError, MirrorConflictError, OwnershipError) as error:
            return _Put(error)

    def _record(self, row: TableRow, done: Sequence[tuple[StoredCommit, ObjectTag | None]]) -> None:
        """Record a batch of commits that were put, with the tags of their objects."""
        if not done:
            return
        crash_point("before-batch-status")
        now = self.clock()
        commits = [commit for commit, _ in done]
        newest = self.tracker.mark_range(
            row.table_id,
            commits[0].version,
            commits[-1].version,
            now=now,
            digest=digest(commits[-1].payload),
            tags=[CommitTag(c.version, digest(c.payload), tag) for c, tag in done if tag],
        )
        crash_point("after-batch-status")
        if newest is None:
            self._take_back(row, [commit.version for commit in commits])
        for commit in commits:
            self._tell(row, commit.version, float(max(now - commit.committed_at, 0)))

    def _tell(self, row: TableRow, version: int, latency_ms: float) -> None:
        self.sink(
            VersionMirrored(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version),
                latency_ms=latency_ms,
            )
        )

    def _take_back(self, row: TableRow, versions: Sequence[int]) -> None:
        """Delete puts that were under way while their table was purged.

        The place may be another table's by now, and a commit that is not its own must not stay in
        its log.
        """
        if not self.catalog.table_by_id(row.table_id).is_purged:
            return
        store = self.open_store(row)
        for version in versions:
            key = commit_key(version)
            with suppress(StorageError):
                if store.get(key) == self.catalog.payload(row.table_id, version):
                    crash_point("before-put-taken-back")
                    store.delete(key)

    def _ended(self, row: TableRow, version: int, error: DeltaSqlError) -> MirrorResult:
        if self.catalog.table_by_id(row.table_id).is_purged:
            self._take_back(row, (version,))  # its answer may be all that was lost
            return MirrorResult(Mirrored.ALREADY, version)
        if isinstance(error, MirrorConflictError | OwnershipError):
            return self._conflict(row, version, error)
        return self.record_failure(row, version, error)

    def _conflict(
        self, row: TableRow, version: int, error: MirrorConflictError | OwnershipError
    ) -> MirrorResult:
        message = f"{error.code}: {error.message}"
        if not self.tracker.mark_conflict(row.table_id, version, message, now=self.clock()):
            return MirrorResult(Mirrored.ALREADY, version)
        crash_point("after-mirror-conflict")
        kind = MirrorConflicted if isinstance(error, MirrorConflictError) else TableFenced
        self.sink(
            kind(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version),
                error_code=error.code,
            )
        )
        return MirrorResult(Mirrored.CONFLICT, version, error)

    def record_failure(self, row: TableRow, version: int, error: DeltaSqlError) -> MirrorResult:
        """Record an attempt that failed, and put the next one off."""
        now = self.clock()
        attempts, verdict = self.tracker.mark_failed_by(
            row.table_id,
            version,
            f"{error.code}: {error.message}",
            lambda count: self.retries.judge(error, count, now),
            now=now,
        )
        crash_point("after-mirror-failure")
        self.sink(
            MirrorFailed(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version),
                attempt=attempts,
                error_code=error.code,
                next_attempt_ms=verdict.next_attempt_at,
                is_final=verdict.is_final,
            )
        )
        return MirrorResult(Mirrored.FAILED, version, error, attempts=attempts)
