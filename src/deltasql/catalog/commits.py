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
from functools import partial
from typing import Any

from deltasql.catalog.append_call import AppendCalls, LostAppendError
from deltasql.catalog.append_groups import AppendGroups
from deltasql.catalog.commit_check import (
    CheckTerms,
    FarBehindError,
    check_ahead,
    check_read,
    check_request,
    check_rules,
)
from deltasql.catalog.commit_encode import Stamp, encode_commit
from deltasql.catalog.commit_request import CommitRequest, Committed, TableRead
from deltasql.catalog.commit_rows import (
    SMALL,
    VersionPlan,
    insert_appends,
    insert_version,
    partition_text,
)
from deltasql.catalog.database import Database, UniqueViolationError, Work
from deltasql.catalog.definitions import DefinitionCache, TableDefinition, change_indexed_columns
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.objects import is_absolute
from deltasql.catalog.registry import NewTable, insert_table
from deltasql.catalog.repeats import (
    other_transaction_error,
    require_same_write,
    stored_summary,
)
from deltasql.catalog.row_ids import number_rows
from deltasql.catalog.rows import LockedTable, TableRow, TableState, locked_table, table_row
from deltasql.catalog.settings_rows import keep_settings
from deltasql.catalog.stats_index import wanted_columns
from deltasql.crash import crash_point
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

    def commit(
        self,
        requests: Sequence[CommitRequest],
        *,
        transaction_id: str | None = None,
        create: NewTable | None = None,
        reads: Sequence[TableRead] = (),
    ) -> list[Committed]:
        """Commit all requests or none, at one timestamp, and return their versions in order.

        `reads` are tables that were read and get no version: they must still be as they were.

        Raises:
            CommitConflictError: a winner contradicts one of them; nothing was committed.
            CommitUnknownError: the outcome could not be learned; send the same again.
            InvalidCommitError: the token was used before for another write.
        """
        done = self._commit(requests, transaction_id, create, reads)
        for request, one in zip(requests, done, strict=True):
            if one.made is not None:
                name = one.before.full_name
                require_same_write(name, one.version, one.made, request.summary())
        return done

    def _commit(
        self,
        requests: Sequence[CommitRequest],
        transaction_id: str | None,
        create: NewTable | None,
        reads: Sequence[TableRead],
    ) -> list[Committed]:
        tables = [request.table_id for request in requests] + [one.table_id for one in reads]
        if len(set(tables)) != len(tables):
            raise InvalidCommitError("A transaction commits to each table once.")
        is_single = len(requests) == 1 and transaction_id is None and create is None and not reads
        alone = partial(
            self._commit_alone, requests, transaction_id, create, reads, may_be_fast=is_single
        )
        if is_single and self._may_be_grouped(requests[0]):
            return [self._groups.commit(requests[0], self._send_group, lambda: alone()[0])]
        return alone()

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
        with self.database.write() as work:
            (lock,), _ = self._lock(work, requests[:1], ask_tokens=False)
            crash_point("after-group-lock")
            plans = self._plan_group(work, lock, requests, ids)
            made = [plan for plan in plans if plan is not None]
            insert_appends(work, self.database, made)
            crash_point("before-group-commit")
        crash_point("after-group-commit")
        for plan in made:
            self.cache.note_partitions(lock.row, plan.new_partitions)
        if made and made[-1].timestamp - lock.now > _MAX_AHEAD_MS:
            self.sleep(len(made) / 1000)
        return [None if plan is None else _committed(plan, lock) for plan in plans]

    def _plan_group(
        self,
        work: Work,
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
                definition = self._check(work, lock, request, terms)
            except _REFUSALS:
                plans.append(None)
                continue
            version += 1
            stamp = Stamp(timestamp, definition.has_in_commit_timestamps, None)
            plan = self._plan(work, request, version, stamp, definition)
            partitions = self._new_partitions(lock.row, plan.commit.adds)
            plans.append(replace(plan, file_ids=file_ids, new_partitions=partitions))
            timestamp += 1
        return plans

    def _commit_alone(
        self,
        requests: Sequence[CommitRequest],
        transaction_id: str | None,
        create: NewTable | None,
        reads: Sequence[TableRead],
        *,
        may_be_fast: bool,
    ) -> list[Committed]:
        lost: Exception | None = None
        for _ in range(_SENDS):
            try:
                if may_be_fast:
                    may_be_fast = False
                    fast = self._send_fast(requests[0])
                    if fast is not None:
                        return [fast]
                return self._send(requests, reads, transaction_id, create)
            except (CommitUnknownError, LostAppendError) as error:
                ceiling = error.ceiling if isinstance(error, LostAppendError) else None
                found = self._resolve(requests, ceiling)
                if found is not None:
                    return found
                lost = error
        raise _not_committed(lost)

    def _send_fast(self, request: CommitRequest) -> Committed | None:
        try:
            return self._calls.commit(request)
        except UniqueViolationError:
            return None  # a transaction finds the token, or puts the add in another's place

    def _send(
        self,
        requests: Sequence[CommitRequest],
        reads: Sequence[TableRead],
        transaction_id: str | None,
        create: NewTable | None,
    ) -> list[Committed]:
        """Commit; winners that are many are checked before the lock, so that nobody waits."""
        terms = CheckTerms(self.epoch)
        for _ in range(_ROUNDS_AHEAD):
            try:
                return self._send_on(terms, requests, reads, transaction_id, create)
            except FarBehindError:
                pass
            try:
                terms = self._check_ahead(terms, requests, reads)
            except CommitConflictError as error:
                return self._made_before(requests, error)
        terms = replace(terms, may_be_far_behind=True)
        return self._send_on(terms, requests, reads, transaction_id, create)

    def _check_ahead(
        self, terms: CheckTerms, requests: Sequence[CommitRequest], reads: Sequence[TableRead]
    ) -> CheckTerms:
        crash_point("before-check-ahead")
        checked = dict(terms.checked)
        everyone = (*requests, *(read.as_request() for read in reads))
        with self.database.read() as work:
            for request in everyone:
                rows = work.rows("table_by_id", table_id=request.table_id)
                if rows and not is_blind_append(request.actions, request.read):
                    after = checked.get(request.table_id, request.read.version)
                    checked[request.table_id] = check_ahead(
                        work, table_row(rows[0]), request, after
                    )
        return replace(terms, checked=checked)

    def _send_on(
        self,
        terms: CheckTerms,
        requests: Sequence[CommitRequest],
        reads: Sequence[TableRead],
        transaction_id: str | None,
        create: NewTable | None,
    ) -> list[Committed]:
        try:
            return self._attempt(terms, requests, reads, transaction_id, create, is_second=False)
        except (
            UniqueViolationError,
            CommitConflictError,
            InvalidCommitError,
            TableStateError,
        ) as error:
            if create is not None:
                return self._made_before(requests, error)
            # The commit may have been made before: only now its token is worth a question. Or a
            # file of the same identity is live: then this add takes its place.
            return self._attempt(terms, requests, reads, transaction_id, None, is_second=True)

    def _attempt(
        self,
        terms: CheckTerms,
        requests: Sequence[CommitRequest],
        reads: Sequence[TableRead],
        transaction_id: str | None,
        create: NewTable | None,
        *,
        is_second: bool,
    ) -> list[Committed]:
        counts = [sum(isinstance(a, Add) for a in request.actions) for request in requests]
        ids = [self._file_ids.take(count) for count in counts]
        crash_point("before-begin")
        with self.database.write() as work:
            if create is not None:
                insert_table(work, create)
            crash_point("after-begin")
            everyone, tokens = self._lock(work, (*requests, *reads), ask_tokens=is_second)
            locked, read = everyone[: len(requests)], everyone[len(requests) :]
            crash_point("after-lock")
            tokens = tokens[: len(requests)]
            if any(tokens):
                return _all_found(tokens)
            for lock, one in zip(read, reads, strict=True):
                check_read(work, lock, one, terms=terms)
            definitions = [
                self._check(work, lock, request, terms)
                for lock, request in zip(locked, requests, strict=True)
            ]
            self._calls.note_clock(locked[0].now)
            timestamp = max(locked[0].now, max(lock.row.last_ict for lock in locked) + 1)
            crash_point("after-check")
            plans = []
            for number, request in enumerate(requests):
                stamp = Stamp(
                    timestamp,
                    definitions[number].has_in_commit_timestamps,
                    transaction_id,
                )
                row = locked[number].row
                version = row.current_version + 1
                numbered = number_rows(work, request, version, definitions[number])
                plan = self._plan(work, numbered, version, stamp, definitions[number])
                plan = replace(
                    plan,
                    file_ids=ids[number],
                    new_partitions=self._new_partitions(row, plan.commit.adds),
                    supersede=is_second,
                )
                insert_version(work, self.database, plan)
                keep_settings(work, plan.commit.actions, row)
                plans.append(plan)
            crash_point("before-commit")
        crash_point("after-commit")
        for plan, lock in zip(plans, locked, strict=True):
            self.cache.note_partitions(lock.row, plan.new_partitions)
        return [_committed(plan, lock) for plan, lock in zip(plans, locked, strict=True)]

    def _lock(
        self, work: Work, requests: Sequence[CommitRequest | TableRead], *, ask_tokens: bool
    ) -> tuple[list[LockedTable], list[Committed | None]]:
        """Lock the tables in the order of their ids, so that two transactions never deadlock.

        A token is asked for by a statement behind the lock: it sees what the lock waited for.
        """
        order = sorted(range(len(requests)), key=lambda number: requests[number].table_id)
        asked = []
        for number in order:
            request = requests[number]
            lock = work.ask("lock_table", table_id=request.table_id)
            token = _no_rows
            if ask_tokens:
                token = work.ask(
                    "version_by_commit_id", table_id=request.table_id, commit_id=request.commit_id
                )
            asked.append((number, lock, token))
        answers = {number: (lock(), token()) for number, lock, token in asked}
        locked, tokens = [], []
        for number, request in enumerate(requests):
            lock_rows, token_rows = answers[number]
            if not lock_rows:
                raise TableNotFoundError(f"There is no table with the id {request.table_id}.")
            found = _locked(lock_rows[0], work)
            locked.append(found)
            tokens.append(_was_there(found, token_rows))
        return locked, tokens

    def _check(
        self, work: Work, lock: LockedTable, request: CommitRequest, terms: CheckTerms
    ) -> TableDefinition:
        if lock.row.current_version < lock.row.first_version:
            first = _first_definition(request)
            check_rules(lock.row.full_name, request.actions, first.protocol, first.metadata)
            return first
        definition = self.cache.load(work, lock.row)
        table = (definition.protocol, definition.metadata)
        check_request(work, lock, request, terms=terms, table=table)
        metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
        return definition if metadata is None else replace(definition, metadata=metadata)

    def _new_partitions(self, row: TableRow, adds: Sequence[Add]) -> Sequence[str]:
        return self.cache.new_partitions(row, {partition_text(add) for add in adds})

    def _plan(
        self,
        work: Work,
        request: CommitRequest,
        version: int,
        stamp: Stamp,
        definition: TableDefinition,
    ) -> VersionPlan:
        commit = encode_commit(request, stamp)
        metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
        indexed = definition.indexed
        if metadata is not None:
            indexed = change_indexed_columns(
                work, request.table_id, version, metadata, wanted_columns(metadata)
            )
        return VersionPlan(
            request,
            commit,
            version,
            stamp.timestamp,
            stamp.transaction_id,
            file_ids=(),
            indexed=indexed,
            new_partitions=(),
            supersede=False,
        )

    def _made_before(
        self, requests: Sequence[CommitRequest], refusal: DeltaSqlError
    ) -> list[Committed]:
        """Return the commit if its token is there, else raise the refusal.

        A COMMIT whose reply was lost may have been made after the outcome was looked up.
        """
        try:
            with self.database.write() as work:
                _, tokens = self._lock(work, requests, ask_tokens=True)
        except TableNotFoundError:
            raise refusal from None
        if not any(tokens):
            raise refusal
        return _all_found(tokens)

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
                with self.database.write() as work:
                    _, tokens = self._lock(work, requests, ask_tokens=True)
                    if any(tokens):
                        return _all_found(tokens)
                    if ceiling is not None:
                        self._calls.fence(work, requests[0].table_id, ceiling)
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


def _no_rows() -> list[tuple[Any, ...]]:
    return []


def _first_definition(request: CommitRequest) -> TableDefinition:
    protocol = next((a for a in request.actions if isinstance(a, Protocol)), None)
    metadata = next((a for a in request.actions if isinstance(a, Metadata)), None)
    if protocol is None or metadata is None:
        raise InvalidCommitError("The first commit of a table holds its protocol and metadata.")
    return TableDefinition(protocol, metadata, ())


def _locked(values: tuple[object, ...], work: Work) -> LockedTable:
    locked = locked_table(values)
    return locked if locked.now else replace(locked, now=work.now_ms())


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
    before = replace(lock.row, current_version=version - 1)
    return Committed(before, version, plan.timestamp, commit.digest, commit.payload)
