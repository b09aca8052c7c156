"""One version or many from SQL into the log, with retries and pauses between them.

The attempt right after a commit, the worker's and the repair's end in the same put. JSON needs no
lease: everybody puts the same bytes, and `mirrored_through` keeps the order.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

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
    TableFenced,
    VersionMirrored,
)
from deltasql.log.commits import write_commit
from deltasql.metastore.commit.encode import StoredCommit
from deltasql.metastore.table_row import TableRow
from deltasql.mirror.object_tags import CommitTag
from deltasql.mirror.queue import MirrorStatusTracker
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import commit_key
from deltasql.runtime.connection import Connection
from deltasql.settings import MirrorSettings
from deltasql.storage.port import ObjectTag

# A batch is recorded as one: so much work at most is found to be done already after a crash.
BATCH_VERSIONS = 200
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_S = 1.0
_PUT_ERRORS = (StorageError, ProtocolError, MirrorConflictError, OwnershipError)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses of 1, 2, 4, 8, 16 s and so on up to a limit, in seconds."""

    base_s: float = 1.0
    limit_s: float = 60.0
    roll: Callable[[], float] = random.random

    def longest(self, attempt: int) -> float:
        """Return the pause after attempt number `attempt` (from 0), before chance has its say."""
        return float(min(self.base_s * 2.0 ** min(attempt, 60), self.limit_s))

    def pause(self, attempt: int) -> float:
        """Return a pause between half of the longest and the longest: many workers spread out."""
        whole = self.longest(attempt)
        return whole / 2 + self.roll() * whole / 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a version after an attempt that failed."""

    is_final: bool
    next_attempt_at: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Some attempts with growing pauses; then FAILED, and an attempt now and then, for ever."""

    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    slow_interval: timedelta = timedelta(hours=1)

    @classmethod
    def of(cls, settings: MirrorSettings) -> RetryPolicy:
        """Return the policy that the settings ask for."""
        base, limit = settings.retry_backoff_base, settings.retry_backoff_max
        return cls(
            settings.max_retry_attempts,
            Backoff(base.total_seconds(), limit.total_seconds()),
            settings.slow_retry_interval,
        )

    def judge(self, error: DeltaSqlError, attempts: int, now: int) -> Verdict:
        """Return what follows from an error; `attempts` counts this one, `now` is in ms.

        A store that does not answer is asked again soon however often it failed; one that refuses
        will go on refusing until somebody does something about it.
        """
        is_final = attempts >= self.max_attempts
        if not is_final:
            pause = self.backoff.pause(attempts - 1)
        elif error.retryable:
            pause = self.backoff.limit_s
        else:
            pause = self.slow_interval.total_seconds()
        return Verdict(is_final, now + int(pause * 1000))


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


class PutCommit(NamedTuple):
    """A commit that is in the log; `tag` where the store's answer had one."""

    commit: StoredCommit
    tag: ObjectTag | None


@dataclass(slots=True)
class MirrorEngine:
    """Mirrors versions of the tables of one catalog; safe to use from many threads."""

    connection: Connection
    tracker: MirrorStatusTracker
    retries: RetryPolicy = field(default_factory=RetryPolicy)

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
        started = self.connection.clock.monotonic()
        known = () if payload is None else (StoredCommit(version, 0, payload),)
        try:
            ((commit, tag),) = self.put_versions(row, version, version, known)
        except _PUT_ERRORS as error:
            return self._ended(row, version, error)
        crash_point("before-mirror-status")
        newest = self.tracker.mark_success(
            row.table_id,
            version,
            json_written=True,
            checkpoint_written=False,
            now=self.connection.now_ms(),
            digest=digest(commit.payload),
            tag=tag,
        )
        crash_point("after-mirror-status")
        if newest is None:
            self._take_back(row, (version,))
        self._tell(row, version, (self.connection.clock.monotonic() - started) * 1000)
        return MirrorResult(Mirrored.DONE, version, count=1, newest=newest)

    def mirror_batch(self, row: TableRow, most: int = BATCH_VERSIONS) -> MirrorResult:
        """Mirror the next versions of a table in order and record them together."""
        first = row.mirrored_through + 1
        if first > row.current_version:
            return MirrorResult(Mirrored.ALREADY, row.mirrored_through)
        error: DeltaSqlError | None = None
        deadline = self.connection.clock.monotonic() + _BATCH_S
        done: list[PutCommit] = []
        size = 0
        try:
            for put in self.put_versions(row, first, min(row.current_version, first + most - 1)):
                done.append(put)
                size += len(put.commit.payload)
                if size >= _BATCH_BYTES or self.connection.clock.monotonic() >= deadline:
                    break
        except _PUT_ERRORS as failed:
            error = failed
        except DeltaSqlError:  # of SQL itself: what is in the log is recorded all the same
            self._record(row, done)
            raise
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
        deadline = self.connection.clock.monotonic() + seconds
        row = self.connection.metastore.table_by_id(table_id)
        result = MirrorResult(Mirrored.ALREADY, row.mirrored_through)
        left = most if most is not None else row.current_version - row.mirrored_through
        while row.mirrored_through < row.current_version and left > 0:
            result = self.mirror_batch(row, min(left, BATCH_VERSIONS))
            if result.outcome is not Mirrored.DONE:
                return result
            left -= result.count
            if self.connection.clock.monotonic() >= deadline:
                break
            row = self.connection.metastore.table_by_id(table_id)
        return result

    def put_versions(
        self, row: TableRow, first: int, last: int, known: Sequence[StoredCommit] = ()
    ) -> Iterator[PutCommit]:
        """Put the stored bytes of versions to the log, in order; yield each that is there.

        Every commit reaches a log this way: after it was made, by the worker, by a repair and by a
        recovery. Versions that move the log on need it to be ours; those below are put again where
        they are missing, and whoever repairs has looked at the log before. The first of them need
        not be read again where they are `known`.

        Raises:
            StorageError, ProtocolError: the store did not take a version; those before it are in.
            MirrorConflictError, OwnershipError: the log holds other bytes, or is another's.
        """
        store = self.connection.store_of(row)
        while first <= last:
            commits, known = known or self._stored(row, first, last), ()
            for commit in commits:
                if commit.version > row.mirrored_through:
                    self.connection.ownership.ensure(row, store)
                tag = write_commit(store, commit.version, commit.payload).tag
                yield PutCommit(commit, tag)
            first += len(commits)

    def put_again(self, row: TableRow, version: int) -> None:
        """Put a version that the log has lost; raises as `put_versions` does."""
        for _ in self.put_versions(row, version, version):
            pass

    def _stored(self, row: TableRow, first: int, last: int) -> list[StoredCommit]:
        """Return the next versions, as many as fit into memory."""
        found = self.connection.metastore.stored_commits(
            row.table_id, first, last, most_bytes=_BATCH_BYTES
        )
        versions = [commit.version for commit in found]
        if versions != list(range(first, first + len(found))) or not found:
            raise CatalogCorruptError(
                f"Table {row.full_name} lacks version {first} or one after it in SQL.",
                table=row.full_name,
                version=first,
            )
        return found

    def _record(self, row: TableRow, done: Sequence[PutCommit]) -> None:
        """Record a batch of commits that were put, with the tags of their objects."""
        if not done:
            return
        crash_point("before-batch-status")
        now = self.connection.now_ms()
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
        self.connection.emit(
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
        if not self.connection.metastore.table_by_id(row.table_id).is_purged:
            return
        store = self.connection.store_of(row)
        for version in versions:
            key = commit_key(version)
            with suppress(StorageError):
                if store.get(key) == self.connection.metastore.payload(row.table_id, version):
                    crash_point("before-put-taken-back")
                    store.delete(key)

    def _ended(self, row: TableRow, version: int, error: DeltaSqlError) -> MirrorResult:
        if self.connection.metastore.table_by_id(row.table_id).is_purged:
            self._take_back(row, (version,))  # its answer may be all that was lost
            return MirrorResult(Mirrored.ALREADY, version)
        if isinstance(error, MirrorConflictError | OwnershipError):
            return self._conflict(row, version, error)
        return self.record_failure(row, version, error)

    def _conflict(
        self, row: TableRow, version: int, error: MirrorConflictError | OwnershipError
    ) -> MirrorResult:
        message = f"{error.code}: {error.message}"
        if not self.tracker.mark_conflict(
            row.table_id, version, message, now=self.connection.now_ms()
        ):
            return MirrorResult(Mirrored.ALREADY, version)
        crash_point("after-mirror-conflict")
        kind = MirrorConflicted if isinstance(error, MirrorConflictError) else TableFenced
        self.connection.emit(
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
        now = self.connection.now_ms()
        attempts, verdict = self.tracker.mark_failed_by(
            row.table_id,
            version,
            f"{error.code}: {error.message}",
            lambda count: self.retries.judge(error, count, now),
            now=now,
        )
        crash_point("after-mirror-failure")
        self.connection.emit(
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
