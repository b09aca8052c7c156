"""Appends: one statement per commit where nothing conflicts, and many commits in one group.

The function locks the table's row, takes the next version and the time, puts the time into the
commit's bytes, and inserts everything, provided that the table is as the caller knows it: active,
in the same epoch, with the same metadata and protocol. If not, it does nothing, and the commit is
sent as a transaction, which finds out why.

A call whose connection was lost may still wait for the row lock at the server. Every call
therefore has a ceiling that its time must stay below; `fence` raises the table's last time to it,
and the call does nothing when its turn comes.

Blind appends of many threads to one table, committed in groups. The first thread that finds
nobody at work leads: it takes the appends that wait and sends them as one transaction, each with
its own version, time, bytes, token and outcome. The others sleep until theirs is sent, or until
they lead the next group.

To lead is an optimization and no lock. The row lock and the unique tokens keep commits right, so
an append whose group failed, or that has waited long, is sent alone by its own thread.

Signal handlers raise in the main thread, between any two statements. So that it leaves no append
of others half done, the main thread takes none: it sends its own alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import CatalogCorruptError, CommitUnknownError, DeltaSqlError
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.commit.check import check_rules
from deltasql.metastore.commit.encode import CommitTime, EncodedCommit, encode_commit
from deltasql.metastore.commit.insert import (
    SMALL,
    VersionPlan,
    file_columns,
    parsed_stats,
    partition_text,
    version_columns,
)
from deltasql.metastore.commit.request import CommitRequest, Committed
from deltasql.metastore.id_blocks import IdBlocks
from deltasql.metastore.references import is_absolute
from deltasql.metastore.snapshot.definition import DefinitionCache, TableDefinition
from deltasql.metastore.stats_index import index_rows
from deltasql.metastore.table_row import TableRow, TableState, table_row
from deltasql.protocol.actions import Add, path_key
from deltasql.protocol.codec import digest
from deltasql.protocol.conflicts import is_blind_append

# The database's clock is asked by transactions; so often an append is sent as one for that alone.
_CLOCK_GOOD_FOR_MS = 60_000

# So long a statement may wait for the lock; a fence moves the table's time ahead by no more.
_PATIENCE_MS = 2_000

# Stands in the bytes where the time will be: as many digits as any time until the year 2286.
_NO_TIME = 1_000_000_000_000
_LARGEST = 1_000_000
_FILE_COLUMNS = (
    "file_id",
    "file_key",
    "path",
    "size",
    "modification_time",
    "partition_values",
    "stats",
    "num_records",
)

MAX_GROUP = 64

# How long an append waits to be taken by a leader. Then it leads too.
_WAIT_TO_BE_TAKEN_S = 2.0

# How long it waits for the outcome of its group; longer than a leader waits for any lock.
_WAIT_FOR_OUTCOME_S = 120.0

# Commits requests to one table in one transaction; None for each that must be sent alone.
SendGroup = Callable[[Sequence[CommitRequest]], Sequence[Committed | None]]


class LostAppendError(Exception):
    """The connection was lost under a call with this ceiling; the committer's own."""

    def __init__(self, ceiling: int) -> None:
        super().__init__(ceiling)
        self.ceiling = ceiling


@dataclass(slots=True)
class AppendCalls:
    """Commits blind appends by one statement where that is possible; safe in many threads."""

    database: Database
    epoch: int
    cache: DefinitionCache
    file_ids: IdBlocks
    ticks_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _clock: tuple[int, int] | None = None

    def note_clock(self, now: int) -> None:
        """Remember what the database's clock has just shown."""
        self._clock = (now, self.ticks_ms())

    def commit(self, request: CommitRequest) -> Committed | None:
        """Commit by one call; None if it takes a transaction.

        Raises:
            LostAppendError: the connection was lost; the append may be made, or still come.
            UniqueViolationError: the token or a file is there already; nothing was committed.
        """
        known = request.known
        if known is None or not self.database.has_server_timestamp:
            return None
        definition = self.cache.find(known)
        ceiling = self._ceiling()
        if definition is None or ceiling is None or not _fits(request, known, definition):
            return None
        check_rules(known.full_name, request.actions, definition.protocol, definition.metadata)
        plan = self._plan(request, known, definition)
        places = time_places(plan.commit, has_own=definition.has_in_commit_timestamps)
        if places is None or len(plan.commit.payload) > _LARGEST:
            return None
        return self._send(plan, known, places, ceiling)

    def fence(self, tx: DbTransaction, table_id: str, ceiling: int) -> None:
        """Under the row lock: let no statement with this ceiling come through any more."""
        tx.execute("raise_last_ict", table_id=table_id, ict=ceiling)

    def _ceiling(self) -> int | None:
        if self._clock is None:
            return None
        shown, at = self._clock
        passed = self.ticks_ms() - at
        return None if passed > _CLOCK_GOOD_FOR_MS else shown + passed + _PATIENCE_MS

    def _plan(
        self, request: CommitRequest, known: TableRow, definition: TableDefinition
    ) -> VersionPlan:
        stamp = CommitTime(_NO_TIME, definition.has_in_commit_timestamps, None)
        commit = encode_commit(request, stamp)
        texts = {partition_text(add) for add in commit.adds}
        return VersionPlan(
            request,
            commit,
            None,
            _NO_TIME,
            None,
            file_ids=self.file_ids.take(len(commit.adds)),
            indexed=definition.indexed,
            new_partitions=self.cache.new_partitions(known, texts),
            supersede=False,
        )

    def _send(
        self, plan: VersionPlan, known: TableRow, places: tuple[int, ...], ceiling: int
    ) -> Committed | None:
        params = {
            **_append_params(plan, places),
            "epoch": self.epoch,
            "metadata_version": known.metadata_version,
            "protocol_version": known.protocol_version,
            "partitions_emptied": known.partitions_emptied,
            "ceiling": ceiling,
        }
        crash_point("before-append-call")
        try:
            rows = self.database.write_once("append", **params)
        except CommitUnknownError as error:
            raise LostAppendError(ceiling) from error
        crash_point("after-append-call")
        if not rows:
            return None
        self.cache.note_partitions(known, plan.new_partitions)
        return _committed(plan, rows[0], places)


def _append_params(plan: VersionPlan, places: tuple[int, ...]) -> dict[str, Any]:
    adds = plan.commit.adds
    stats = parsed_stats(adds)
    files = file_columns(adds, plan.file_ids, stats)
    index = index_rows(stats, plan.file_ids, plan.indexed)
    return {
        **{name: files[name] for name in _FILE_COLUMNS},
        **{f"num_{name}": column for name, column in index.num.items()},
        **{f"text_{name}": column for name, column in index.text.items()},
        **version_columns(plan),
        "partitions": plan.new_partitions,
        "pieces": cut_at_times(plan.commit.payload, places),
        "has_own_time": len(places) > 1,
    }


def _committed(plan: VersionPlan, row: tuple[object, ...], places: tuple[int, ...]) -> Committed:
    *columns, stored = row
    after = table_row(columns)
    payload = with_time(plan.commit.payload, places, after.last_ict)
    found = digest(payload)
    if found != stored:
        raise CatalogCorruptError(
            f"Version {after.current_version} of {after.full_name} was stored with other bytes."
        )
    before = replace(after, current_version=after.current_version - 1)
    return Committed(before, after.current_version, after.last_ict, found, payload)


def time_places(commit: EncodedCommit, *, has_own: bool) -> tuple[int, ...] | None:
    """Return where in the bytes the time stands: `timestamp`, then the commit's own, if it has one.

    commitInfo is the first line and all of it is ours, so each place is found exactly once; None
    where that is not so.
    """
    line = commit.payload.partition(b"\n")[0]
    names = (b"timestamp", b"inCommitTimestamp") if has_own else (b"timestamp",)
    marks = [b'"%s":%d' % (name, _NO_TIME) for name in names]
    if any(line.count(mark) != 1 for mark in marks):
        return None
    width = len(str(_NO_TIME))
    return tuple(line.index(mark) + len(mark) - width for mark in marks)


def cut_at_times(payload: bytes, places: tuple[int, ...]) -> list[str]:
    """Return the text around the times; joined by a time it is what `with_time` returns."""
    width = len(str(_NO_TIME))
    ends = [*sorted(places), len(payload)]
    starts = [0, *(end + width for end in ends[:-1])]
    return [payload[start:end].decode() for start, end in zip(starts, ends, strict=True)]


def with_time(payload: bytes, places: tuple[int, ...], moment: int) -> bytes:
    """Return the bytes with the time written where it belongs."""
    text = b"%d" % moment
    for place in places:
        payload = payload[:place] + text + payload[place + len(text) :]
    return payload


def _fits(request: CommitRequest, known: TableRow, definition: TableDefinition) -> bool:
    """Tell whether a request is a small blind append that needs no number of its own version."""
    return (
        request.expected_version is None
        and request.state_after is TableState.ACTIVE
        and request.work_id is None
        and known.state is TableState.ACTIVE
        and 0 < len(request.actions) <= SMALL
        and all(isinstance(a, Add) and _is_plain(a) for a in request.actions)
        and request.read.version >= max(known.metadata_version, known.protocol_version)
        and is_blind_append(request.actions, request.read)
        and "rowTracking" not in (definition.protocol.writer_features or ())
    )


def _is_plain(add: Add) -> bool:
    """Tell whether an add has only what the function writes."""
    odd = (add.tags, add.deletion_vector, add.base_row_id, add.clustering_provider, add.extra)
    return (
        all(value is None for value in odd)
        and add.default_row_commit_version is None
        and add.data_change
        and not is_absolute(add.path)
        and path_key(add.path) == add.path
    )


@dataclass(slots=True, eq=False)
class _Append:
    request: CommitRequest
    is_taken: bool = False
    is_sent: bool = False
    outcome: Committed | None = None
    wake: threading.Event | None = None

    def sent(self, outcome: Committed | None) -> None:
        """Take the outcome, and wake the thread if it waits."""
        self.outcome = outcome
        self.is_sent = True
        if self.wake is not None:
            self.wake.set()


@dataclass(slots=True)
class _Queue:
    """The appends to one table that wait, oldest first, and the one whose thread leads."""

    waiting: list[_Append] = field(default_factory=list)
    leader: _Append | None = None


class AppendGroups:
    """The appends that wait, by table; safe in many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Forget the parent's threads."""
        self._lock = threading.Lock()
        self._queues = {}

    def commit(
        self, request: CommitRequest, send: SendGroup, alone: Callable[[], Committed]
    ) -> Committed:
        """Commit an append: in a group by `send`, or by calling `alone`."""
        append = _Append(request)
        try:
            wake = self._join(append)
            if wake is not None:
                self._wait(append, wake)
            if not append.is_taken and not _is_interruptible():
                self._lead(append, send)
            if append.outcome is None:  # a leader still leads: others gather meanwhile
                return alone()
        finally:
            self._leave(append)
        return append.outcome

    def _join(self, append: _Append) -> threading.Event | None:
        """Lead at once where nobody does, else return what will wake the append."""
        with self._lock:
            queue = self._queues.setdefault(append.request.table_id, _Queue())
            if queue.leader is None:
                queue.leader = append
                return None
            append.wake = threading.Event()
            queue.waiting.append(append)
            return append.wake

    def _wait(self, append: _Append, wake: threading.Event) -> None:
        """Wait until the append was sent or leads."""
        started = time.monotonic()
        while not append.is_sent:
            patience = _WAIT_FOR_OUTCOME_S if append.is_taken else _WAIT_TO_BE_TAKEN_S
            left = started + patience - time.monotonic()
            wake.wait(max(left, 0.0))
            with self._lock:
                if append.is_sent or (append.is_taken and left <= 0):
                    return
                if not append.is_taken and self._may_lead(append, is_late=left <= 0):
                    return
                wake.clear()

    def _may_lead(self, append: _Append, *, is_late: bool) -> bool:
        queue = self._queues.setdefault(append.request.table_id, _Queue())
        if queue.leader is not None and not is_late:
            return False
        if append in queue.waiting:
            queue.waiting.remove(append)
        queue.leader = append
        return True

    def _lead(self, leader: _Append, send: SendGroup) -> None:
        """Send what waits, the leader's own append first; its outcome stays open if it is alone."""
        with self._lock:
            queue = self._queues.setdefault(leader.request.table_id, _Queue())
            others, queue.waiting = queue.waiting[: MAX_GROUP - 1], queue.waiting[MAX_GROUP - 1 :]
            for append in others:
                append.is_taken = True
        if not others:
            return
        group = [leader, *others]
        outcomes: Sequence[Committed | None] = [None] * len(group)
        try:
            crash_point("before-group")
            outcomes = send([append.request for append in group])
        except DeltaSqlError:
            pass  # each is sent alone, and finds its token where the group was committed after all
        finally:
            with self._lock:
                for append, outcome in zip(group, outcomes, strict=True):
                    append.sent(outcome)

    def _leave(self, append: _Append) -> None:
        """Wake who has waited longest; an append that an interrupt stopped waits no more."""
        with self._lock:
            queue = self._queues.get(append.request.table_id)
            if queue is None:
                return
            if append in queue.waiting:
                queue.waiting.remove(append)
            if queue.leader is append:
                queue.leader = None
            if queue.leader is not None:
                return
            wake = queue.waiting[0].wake if queue.waiting else None
            if wake is not None:
                wake.set()
            else:
                del self._queues[append.request.table_id]


def _is_interruptible() -> bool:
    return threading.current_thread() is threading.main_thread()
