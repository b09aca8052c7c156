"""MirrorEngine: put a version's stored bytes to `_delta_log`, in order, exactly once.

The attempt right after a commit, the worker's and the repair's are this one function. JSON needs
no lease: everybody puts the same bytes, and `mirrored_through` keeps the order.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.rows import TableRow
from deltasql.crash import crash_point
from deltasql.errors import (
    DeltaSqlError,
    MirrorConflictError,
    ObjectNotFoundError,
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
from deltasql.log.owner import Owner, check_owner, claim
from deltasql.log.writer import write_commit
from deltasql.protocol.codec import digest
from deltasql.protocol.files import LOG_FOLDER, commit_key
from deltasql.storage.port import ObjectStore

# A put of a commit takes seconds; what is so much older belongs to a writer that was killed.
_LEFTOVER_AGE_S = 3600.0


class Mirrored(enum.Enum):
    """How an attempt to mirror a version ended."""

    DONE = "done"
    ALREADY = "already"
    BLOCKED = "blocked"
    FAILED = "failed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """The end of an attempt, with its error where there was one."""

    outcome: Mirrored
    version: int
    error: DeltaSqlError | None = None


@dataclass(slots=True)
class MirrorEngine:
    """Mirrors versions of the tables of one catalog; safe to use from many threads."""

    catalog: SqlCatalog
    open_store: Callable[[TableRow], ObjectStore]
    tracker: MirrorStatusTracker
    sink: Sink = discard
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    _owned: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
        try:
            store = self.open_store(row)
            self.ensure_owner(row, store)
            write_commit(store, version, stored)
        except (MirrorConflictError, OwnershipError) as error:
            return self._conflict(row, version, error)
        except (StorageError, ProtocolError) as error:
            return self._failed(row, version, error)
        crash_point("before-mirror-status")
        self.tracker.mark_success(
            row.table_id, version, json_written=True, checkpoint_written=False, now=self.clock()
        )
        crash_point("after-mirror-status")
        latency = (self.monotonic() - started) * 1000
        self.sink(
            VersionMirrored(
                table_id=row.table_id,
                table=row.full_name,
                version=version,
                key=commit_key(version),
                latency_ms=latency,
            )
        )
        return MirrorResult(Mirrored.DONE, version)

    def catch_up(self, table_id: str, *, seconds: float, most: int | None = None) -> MirrorResult:
        """Mirror what is missing, in order, until done, an error, or the time is over."""
        deadline = self.monotonic() + seconds
        row = self.catalog.table_by_id(table_id)
        result = MirrorResult(Mirrored.ALREADY, row.mirrored_through)
        left = most if most is not None else row.current_version - row.mirrored_through
        while row.mirrored_through < row.current_version and left > 0:
            result = self.mirror_version(row, row.mirrored_through + 1)
            if result.outcome not in {Mirrored.DONE, Mirrored.ALREADY}:
                return result
            left -= 1
            row = self.catalog.table_by_id(table_id)
            if self.monotonic() >= deadline:
                break
        return result

    def ensure_owner(self, row: TableRow, store: ObjectStore) -> None:
        """Make sure, once per process and table, that the log is ours and not ahead of SQL.

        Raises:
            OwnershipError: it is another catalog's, or holds versions that SQL does not know.
        """
        with self._lock:
            if row.table_id in self._owned:
                return
        identity = self.catalog.identity
        owner = Owner(identity.catalog_id, identity.epoch, row.table_id)
        if not check_owner(store, owner):
            self._check_unmarked(row, store)
            claim(store, owner)
        self._refuse_log_ahead(row, store)
        store.sweep_leftovers(LOG_FOLDER, _LEFTOVER_AGE_S, self.clock() / 1000)
        with self._lock:
            self._owned.add(row.table_id)

    def _check_unmarked(self, row: TableRow, store: ObjectStore) -> None:
        """Accept a log without a marker only if what we mirrored is still what is there."""
        last = row.mirrored_through
        if last < row.first_version:
            return
        key = commit_key(last)
        try:
            found = digest(store.get(key))
        except ObjectNotFoundError:
            raise OwnershipError(f"{key} is gone from the log at {store.uri}.", key=key) from None
        if found != digest(self.catalog.payload(row.table_id, last)):
            raise OwnershipError(f"{key} at {store.uri} is not the version that SQL has.", key=key)

    def _refuse_log_ahead(self, row: TableRow, store: ObjectStore) -> None:
        """SQL is read after the log: what others commit meanwhile is in SQL before it is there."""
        current = self.catalog.table_by_id(row.table_id).current_version
        while True:
            key = commit_key(current + 1)
            try:
                store.head(key)
            except ObjectNotFoundError:
                return
            newer = self.catalog.table_by_id(row.table_id).current_version
            if newer <= current:
                raise OwnershipError(
                    f"The log at {store.uri} holds {key}; SQL has table {row.full_name} up to "
                    f"{current}.",
                    key=key,
                )
            current = newer

    def _conflict(
        self, row: TableRow, version: int, error: MirrorConflictError | OwnershipError
    ) -> MirrorResult:
        self.tracker.mark_conflict(row.table_id, version, error.message, now=self.clock())
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

    def _failed(self, row: TableRow, version: int, error: DeltaSqlError) -> MirrorResult:
        attempts = self.tracker.mark_failed(
            row.table_id, version, f"{error.code}: {error.message}", now=self.clock()
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
            )
        )
        return MirrorResult(Mirrored.FAILED, version, error)
