"""The commit: lock first, then check, then encode, then insert; one short SQL transaction.

No object store is touched here, but by a create, which takes its place last. The same commit_id
sent twice is one commit; a connection lost during COMMIT is resolved by asking for the token under
the tables' row locks, which the lost transaction held before it sent anything else: whoever gets
them afterwards sees its outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction, UniqueViolationError
from deltasql.errors import (
    CatalogUnavailableError,
    CommitConflictError,
    CommitUnknownError,
    DeltaSqlError,
    InvalidCommitError,
    OwnershipError,
    TableNotFoundError,
    TableStateError,
    UnsupportedFeatureError,
)
from deltasql.metastore.commit.append import AppendCalls, AppendGroups, LostAppendError
from deltasql.metastore.commit.check import (
    CheckTerms,
    FarBehindError,
    check_ahead,
    check_read,
    check_request,
    check_rules,
)
from deltasql.metastore.commit.encode import CommitTime, encode_commit
from deltasql.metastore.commit.insert import (
    SMALL,
    VersionPlan,
    insert_appends,
    insert_version,
    partition_text,
)
from deltasql.metastore.commit.request import (
    CommitRequest,
    Committed,
    TableRead,
    TransactionRequest,
    other_transaction_error,
    require_same_write,
    stored_summary,
)
from deltasql.metastore.id_blocks import IdBlocks, number_rows
from deltasql.metastore.references import is_absolute
from deltasql.metastore.snapshot.definition import (
    DefinitionCache,
    TableDefinition,
    change_indexed_columns,
)
from deltasql.metastore.stats_index import wanted_columns
from deltasql.metastore.table_row import (
    LockedTable,
    TableState,
    insert_table,
    keep_settings,
    locked_table,
    table_row,
)
from deltasql.protocol.actions import Add, Metadata, Protocol
from deltasql.protocol.conflicts import is_blind_append
from deltasql.protocol.features import writer_features
from deltasql.protocol.row_tracking import FEATURE as ROW_TRACKING

_RESOLVE_FOR_S = 60.0
_SENDS = 3
# So often the winners that came meanwhile are checked before the lock; then under it.
_ROUNDS_AHEAD = 10
# Times of commits rise by a millisecond at least, so more than 1,000 a second run ahead of the
# clock. So far ahead, groups are slowed down to that rate.
_MAX_AHEAD_MS = 10_000
# What a request is refused by on its own, while others of its group may be committed.
_REFUSALS = (
    CommitConflictError,
    InvalidCommitError,
    OwnershipError,
    TableStateError,
    UnsupportedFeatureError,
)


class _Attempt(NamedTuple):
    """How the rows of a commit are written.

    What was sent before may have been made: then its token is asked for. A live file that an add
    names again is replaced where `replaces_live_files`; else the add is refused.
    """

    asks_tokens: bool
    replaces_live_files: bool


# Most commits meet neither their own token nor a live file of the same identity: the first attempt
# looks for none, and its refusal is the reason to look.
_FIRST = _Attempt(asks_tokens=False, replaces_live_files=False)
_SECOND = _Attempt(asks_tokens=True, replaces_live_files=True)


class _Lock(NamedTuple):
    """A table under its row lock, and what its token has made before."""

    table: LockedTable
    made: Committed | None


class _Part(NamedTuple):
    """One table's part of a transaction, under the lock and found to be allowed."""

    request: CommitRequest
    lock: LockedTable
    definition: TableDefinition
    file_ids: Sequence[int]


@dataclass(slots=True)
class Committer:
    """Commits requests to one catalog; safe to use from many threads."""

    database: Database
    epoch: int
    cache: DefinitionCache = field(default_factory=DefinitionCache)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _file_ids: IdBlocks = field(init=False)
    _calls: AppendCalls = field(init=False)
    _groups: AppendGroups = field(default_factory=AppendGroups)

    def __post_init__(self) -> None:
        self._file_ids = IdBlocks(self.database, "file_id")
        self._calls = AppendCalls(self.database, self.epoch, self.cache, self._file_ids)

    def commit(self, transaction: TransactionRequest) -> list[Committed]:
        """Commit all requests or none, at one timestamp, and return their versions in order.

        Raises:
            CommitConflictError: a winner contradicts one of them; nothing was committed.
            CommitUnknownError: the outcome could not be learned; send the same again.
            InvalidCommitError: the token was used before for another write.
        """
        done = self._commit(transaction)
        for request, one in zip(transaction.requests, done, strict=True):
            if one.made is not None:
                name = one.before.full_name
                require_same_write(name, one.version, one.made, request.summary())
        return done

    def _commit(self, transaction: TransactionRequest) -> list[Committed]:
        tables = transaction.table_ids
        if len(set(tables)) != len(tables):
            raise InvalidCommitError("A transaction commits to each table once.")
        if not transaction.is_single:
            return self._commit_alone(transaction)
        request = transaction.requests[0]
        if self._may_be_grouped(request):
            return [
                self._groups.commit(
                    request, self._send_group, lambda: self._commit_alone(transaction)[0]
                )
            ]
        return self._commit_alone(transaction)

    def _may_be_grouped(self, request: CommitRequest) -> bool:
        """Tell whether a request is a small append that depends on no other commit."""
        definition = None if request.known is None else self.cache.find(request.known)
        return (
            definition is not None
            and request.expected_version is None
            and request.state_after is TableState.ACTIVE
            and 0 < len(request.actions) <= SMALL
            and all(isinstance(a, Add) and not is_absolute(a.path) for a in request.actions)
            and is_blind_append(request.actions, request.read)
            and ROW_TRACKING not in writer_features(definition.protocol)
        )

    def _send_group(self, requests: Sequence[CommitRequest]) -> list[Committed | None]:
        """Commit appends to one table as one version each; None for those that are refused."""
        ids = [self._file_ids.take(len(request.actions)) for request in requests]
        with self.database.write() as tx:
            lock = self._lock(tx, requests[:1], _FIRST)[requests[0].table_id].table
            crash_point("after-group-lock")
            plans = self._plan_group(tx, lock, requests, ids)
            made = [plan for plan in plans if plan is not None]
            insert_appends(tx, self.database, made)
            crash_point("before-group-commit")
        crash_point("after-group-commit")
        for plan in made:
            self.cache.note_partitions(lock.row, plan.new_partitions)
        if made and made[-1].timestamp - lock.now > _MAX_AHEAD_MS:
            self.sleep(len(made) / 1000)
        return [None if plan is None else _committed(plan, lock) for plan in plans]

    def _plan_group(
        self,
        tx: DbTransaction,
        lock: LockedTable,
        requests: Sequence[CommitRequest],
        ids: Sequence[Sequence[int]],
    ) -> list[VersionPlan | None]:
        terms = CheckTerms(self.epoch)
        version = lock.row.current_version
        timestamp = max(lock.now, lock.row.last_ict + 1)
        plans: list[VersionPlan | None] = []
        for request, file_ids in zip(requests, ids, strict=True):
            try:
                definition = self._check(tx, lock, request, terms)
            except _REFUSALS:
                plans.append(None)
                continue
            version += 1
            stamp = CommitTime(timestamp, definition.has_in_commit_timestamps, None)
            part = _Part(request, lock, definition, file_ids)
            plans.append(self._plan(tx, part, version, stamp, _FIRST))
            timestamp += 1
        return plans

    def _commit_alone(self, transaction: TransactionRequest) -> list[Committed]:
        lost: Exception | None = None
        may_be_fast = transaction.is_single
        for _ in range(_SENDS):
            try:
                if may_be_fast:
                    may_be_fast = False
                    fast = self._send_fast(transaction.requests[0])
                    if fast is not None:
                        return [fast]
                return self._send(transaction)
            except (CommitUnknownError, LostAppendError) as error:
                ceiling = error.ceiling if isinstance(error, LostAppendError) else None
                found = self._resolve(transaction.requests, ceiling)
                if found is not None:
                    return found
                lost = error
        raise _not_committed(lost)

    def _send_fast(self, request: CommitRequest) -> Committed | None:
        try:
            return self._calls.commit(request)
        except UniqueViolationError:
            return None  # a transaction finds the token, or puts the add in another's place

    def _send(self, transaction: TransactionRequest) -> list[Committed]:
        """Commit; winners that are many are checked before the lock, so that nobody waits."""
        terms = CheckTerms(self.epoch)
        for _ in range(_ROUNDS_AHEAD):
            try:
                return self._send_on(terms, transaction)
            except FarBehindError:
                pass
            try:
                terms = self._check_ahead(terms, transaction)
            except CommitConflictError as error:
                return self._made_before(transaction.requests, error)
        terms = replace(terms, may_be_far_behind=True)
        return self._send_on(terms, transaction)

    def _check_ahead(self, terms: CheckTerms, transaction: TransactionRequest) -> CheckTerms:
        crash_point("before-check-ahead")
        checked = dict(terms.checked)
        everyone = (*transaction.requests, *(read.as_request() for read in transaction.reads))
        with self.database.read() as tx:
            for request in everyone:
                rows = tx.fetch_all("table_by_id", table_id=request.table_id)
                if rows and not is_blind_append(request.actions, request.read):
                    after = checked.get(request.table_id, request.read.version)
                    checked[request.table_id] = check_ahead(tx, table_row(rows[0]), request, after)
        return replace(terms, checked=checked)

    def _send_on(self, terms: CheckTerms, transaction: TransactionRequest) -> list[Committed]:
        try:
            return self._attempt(terms, transaction, _FIRST)
        except (
            UniqueViolationError,
            CommitConflictError,
            InvalidCommitError,
            TableStateError,
        ) as error:
            if transaction.create is not None:
                return self._made_before(transaction.requests, error)
            return self._attempt(terms, transaction, _SECOND)

    def _attempt(
        self, terms: CheckTerms, transaction: TransactionRequest, attempt: _Attempt
    ) -> list[Committed]:
        requests = transaction.requests
        ids = [self._file_ids.take(_count_adds(request)) for request in requests]
        crash_point("before-begin")
        with self.database.write() as tx:
            if transaction.create is not None:
                insert_table(tx, transaction.create)
            crash_point("after-begin")
            locks = self._lock(tx, (*requests, *transaction.reads), attempt)
            crash_point("after-lock")
            made = [locks[request.table_id].made for request in requests]
            if any(made):
                return _all_found(made)
            for read in transaction.reads:
                check_read(tx, locks[read.table_id].table, read, terms=terms)
            parts = []
            for request, file_ids in zip(requests, ids, strict=True):
                lock = locks[request.table_id].table
                definition = self._check(tx, lock, request, terms)
                parts.append(_Part(request, lock, definition, file_ids))
            crash_point("after-check")
            plans = self._insert(tx, parts, transaction.transaction_id, attempt)
            crash_point("before-commit")
        crash_point("after-commit")
        for part, plan in zip(parts, plans, strict=True):
            self.cache.note_partitions(part.lock.row, plan.new_partitions)
        return [_committed(plan, part.lock) for part, plan in zip(parts, plans, strict=True)]

    def _insert(
        self,
        tx: DbTransaction,
        parts: Sequence[_Part],
        transaction_id: str | None,
        attempt: _Attempt,
    ) -> list[VersionPlan]:
        now = parts[0].lock.now
        self._calls.note_clock(now)
        timestamp = max(now, max(part.lock.row.last_ict for part in parts) + 1)
        plans = []
        for request, lock, definition, file_ids in parts:
            version = lock.row.current_version + 1
            numbered = number_rows(tx, request, version, definition)
            stamp = CommitTime(timestamp, definition.has_in_commit_timestamps, transaction_id)
            part = _Part(numbered, lock, definition, file_ids)
            plan = self._plan(tx, part, version, stamp, attempt)
            insert_version(tx, self.database, plan)
            keep_settings(tx, plan.commit.actions, lock.row)
            plans.append(plan)
        return plans

    def _lock(
        self, tx: DbTransaction, requests: Sequence[CommitRequest | TableRead], attempt: _Attempt
    ) -> dict[str, _Lock]:
        """Lock the tables in the order of their ids, so that two transactions never deadlock.

        A token is asked for by a statement behind the lock: it sees what the lock waited for.
        """
        asked = []
        for request in sorted(requests, key=_table_id):
            table_id = request.table_id
            lock = tx.fetch_later("lock_table", table_id=table_id)
            token = None
            if attempt.asks_tokens:
                token = tx.fetch_later(
                    "version_by_commit_id", table_id=table_id, commit_id=request.commit_id
                )
            asked.append((table_id, lock, token))
        locks = {}
        for table_id, lock, token in asked:
            rows = lock()
            if not rows:
                raise TableNotFoundError(f"There is no table with the id {table_id}.")
            table = _locked(rows[0], tx)
            locks[table_id] = _Lock(table, None if token is None else _was_there(table, token()))
        return locks

    def _check(
        self, tx: DbTransaction, lock: LockedTable, request: CommitRequest, terms: CheckTerms
    ) -> TableDefinition:
        if lock.row.current_version < lock.row.first_version:
            first = _first_definition(request)
            check_rules(lock.row.full_name, request.actions, first.protocol, first.metadata)
            return first
        definition = self.cache.load(tx, lock.row)
        table = (definition.protocol, definition.metadata)
        check_request(tx, lock, request, terms=terms, table=table)
        metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
        return definition if metadata is None else replace(definition, metadata=metadata)

    def _plan(
        self, tx: DbTransaction, part: _Part, version: int, stamp: CommitTime, attempt: _Attempt
    ) -> VersionPlan:
        request = part.request
        commit = encode_commit(request, stamp)
        metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
        indexed = part.definition.indexed
        if metadata is not None:
            indexed = change_indexed_columns(
                tx, request.table_id, version, metadata, wanted_columns(metadata)
            )
        partitions = {partition_text(add) for add in commit.adds}
        return VersionPlan(
            request,
            commit,
            version,
            stamp.timestamp,
            stamp.transaction_id,
            file_ids=part.file_ids,
            indexed=indexed,
            new_partitions=self.cache.new_partitions(part.lock.row, partitions),
            supersede=attempt.replaces_live_files,
        )

    def _made_before(
        self, requests: Sequence[CommitRequest], refusal: DeltaSqlError
    ) -> list[Committed]:
        """Return the commit if its token is there, else raise the refusal.

        A COMMIT whose reply was lost may have been made after the outcome was looked up.
        """
        try:
            with self.database.write() as tx:
                made = self._made(tx, requests)
        except TableNotFoundError:
            raise refusal from None
        if not any(made):
            raise refusal
        return _all_found(made)

    def _made(self, tx: DbTransaction, requests: Sequence[CommitRequest]) -> list[Committed | None]:
        locks = self._lock(tx, requests, _SECOND)
        return [locks[request.table_id].made for request in requests]

    def _resolve(
        self, requests: Sequence[CommitRequest], ceiling: int | None
    ) -> list[Committed] | None:
        """Learn what became of a commit whose reply was lost; None means it did not happen.

        A call may still wait for the lock: it is fenced off by its ceiling. Until the
        database has answered, every error means "not known yet": a standby that takes no writes, a
        login or a right that is refused, a file that was replaced.

        Raises:
            CommitUnknownError: the database has not answered in time.
        """
        crash_point("before-resolve")
        deadline = self.monotonic() + _RESOLVE_FOR_S
        wait = 0.05
        while True:
            try:
                with self.database.write() as tx:
                    made = self._made(tx, requests)
                    if any(made):
                        return _all_found(made)
                    if ceiling is not None:
                        self._calls.fence(tx, requests[0].table_id, ceiling)
            except TableNotFoundError:
                return None
            except DeltaSqlError as error:
                if self.monotonic() >= deadline:
                    raise CommitUnknownError(
                        "The connection was lost during COMMIT, and the catalog does not tell what "
                        f"became of it: {error.message}"
                    ) from error
            else:
                return None
            self.sleep(wait)
            wait = min(wait * 2, 2.0)


def _not_committed(lost: Exception | None) -> CatalogUnavailableError:
    """Return the error of a commit that was lost on every attempt, by its cause if it is known."""
    cause = lost.__cause__ if lost is not None else None
    if isinstance(cause, DeltaSqlError) and not isinstance(cause, CommitUnknownError):
        message = f"Nothing was committed: {cause.message}"
        return CatalogUnavailableError(message, hint=cause.advice or None)
    return CatalogUnavailableError(
        "The connection was lost during COMMIT again and again; nothing was committed."
    )


def _table_id(request: CommitRequest | TableRead) -> str:
    return request.table_id


def _count_adds(request: CommitRequest) -> int:
    return sum(isinstance(action, Add) for action in request.actions)


def _first_definition(request: CommitRequest) -> TableDefinition:
    protocol = next((a for a in request.actions if isinstance(a, Protocol)), None)
    metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
    if protocol is None or metadata is None:
        raise InvalidCommitError("The first commit of a table holds its protocol and metadata.")
    return TableDefinition(protocol, metadata, ())


def _locked(values: tuple[object, ...], tx: DbTransaction) -> LockedTable:
    locked = locked_table(values)
    return locked if locked.now else replace(locked, now=tx.now_ms())


def _was_there(lock: LockedTable, rows: list[tuple[object, ...]]) -> Committed | None:
    if not rows:
        return None
    version, found, timestamp, *told = rows[0]
    made = stored_summary(told)
    return Committed(lock.row, int(str(version)), int(str(timestamp or 0)), str(found), made=made)


def _all_found(tokens: Sequence[Committed | None]) -> list[Committed]:
    found = [token for token in tokens if token is not None]
    if len(found) != len(tokens):
        raise other_transaction_error({one.before.full_name: one.version for one in found})
    return found


def _committed(plan: VersionPlan, lock: LockedTable) -> Committed:
    commit, version = plan.commit, plan.version
    assert version is not None  # noqa: S101 (only the fast path has a plan without one)
    before = lock.row
    if before.current_version != version - 1:  # others of its group came first
        before = replace(before, current_version=version - 1)
    return Committed(before, version, plan.timestamp, commit.digest, commit.payload)
