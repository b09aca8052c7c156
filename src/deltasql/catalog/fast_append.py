"""The fast road of a blind append: the whole commit as one statement, in one round trip.

The statement locks the table's row, takes the next version and inserts everything, provided that
the table is as the caller knows it: active, in the same epoch, with the same metadata and
protocol, and younger in its last commit than the time that the caller proposes. If not, it does
nothing and the commit takes the slow road, which finds out why.

A statement whose connection was lost may still wait for the row lock at the server. `fence` makes
sure that it fails: it raises the table's last commit time to the one that the statement proposed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from deltasql.catalog.commit_check import check_rules
from deltasql.catalog.commit_encode import Stamp, compress, encode_commit
from deltasql.catalog.commit_request import CommitRequest, Committed
from deltasql.catalog.commit_rows import SMALL, VersionPlan, partition_text, small_record
from deltasql.catalog.database import Database, Work
from deltasql.catalog.definitions import DefinitionCache, TableDefinition
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.payloads import CHUNK_BYTES
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.crash import crash_point
from deltasql.errors import CommitUnknownError
from deltasql.protocol.actions import Add
from deltasql.protocol.conflicts import is_blind_append

# The database's clock is asked by the slow road; so often a commit takes it for that alone.
_CLOCK_GOOD_FOR_MS = 60_000
_FIRST_PAUSE = 16
_LONGEST_PAUSE = 512


class LostAppendError(Exception):
    """The connection was lost under a fast append that carries this time; the committer's own."""

    def __init__(self, proposed: int) -> None:
        super().__init__(proposed)
        self.proposed = proposed


@dataclass(slots=True)
class _Pause:
    """How many commits of a table take the slow road before the fast one is tried again."""

    left: int = 0
    next: int = _FIRST_PAUSE


@dataclass(slots=True)
class FastAppends:
    """Commits blind appends by one statement where that is possible; safe in many threads."""

    database: Database
    epoch: int
    cache: DefinitionCache
    file_ids: IdBlocks
    ticks_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _clock: tuple[int, int] | None = None
    _last: dict[str, int] = field(default_factory=dict)
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_clock(self, now: int) -> None:
        """Remember what the database's clock has just shown."""
        self._clock = (now, self.ticks_ms())

    def commit(self, request: CommitRequest) -> Committed | None:
        """Commit by the fast road; None if the slow one must be taken.

        Raises:
            LostAppendError: the connection was lost; the append may be made, or still come.
            UniqueViolationError: the token or a file is there already; nothing was committed.
        """
        known = request.known
        definition = None if known is None else self.cache.find(known)
        if known is None or definition is None or not _fits(request, known, definition):
            return None
        proposed = self._propose(known.table_id)
        if proposed is None:
            return None
        check_rules(known.full_name, request.actions, definition.protocol, definition.metadata)
        return self._send(self._plan(request, definition, proposed), known)

    def fence(self, work: Work, table_id: str, proposed: int) -> None:
        """Under the row lock: let no statement that proposed this time come through any more."""
        work.run("raise_last_ict", table_id=table_id, ict=proposed)

    def _propose(self, table_id: str) -> int | None:
        with self._lock:
            pause = self._pauses.get(table_id)
            if pause is not None and pause.left > 0:
                pause.left -= 1
                return None
            if self._clock is None:
                return None
            shown, at = self._clock
            passed = self.ticks_ms() - at
            if passed > _CLOCK_GOOD_FOR_MS:
                return None
            return max(shown + passed, self._last.get(table_id, 0) + 1)

    def _plan(
        self, request: CommitRequest, definition: TableDefinition, proposed: int
    ) -> VersionPlan:
        stamp = Stamp(proposed, definition.has_in_commit_timestamps, None)
        commit = encode_commit(request, stamp)
        texts = {partition_text(add) for add in commit.adds}
        return VersionPlan(
            request,
            commit,
            None,
            proposed,
            None,
            file_ids=self.file_ids.take(len(commit.adds)),
            indexed=definition.indexed,
            new_partitions=self.cache.new_partitions(request.table_id, texts),
            supersede=False,
        )

    def _send(self, plan: VersionPlan, known: TableRow) -> Committed | None:
        packed = compress(plan.commit.payload)
        if len(packed) > CHUNK_BYTES:
            return None
        guards = {
            "epoch": self.epoch,
            "known_metadata": known.metadata_version,
            "known_protocol": known.protocol_version,
        }
        crash_point("before-fast-append")
        try:
            rows = self.database.write_once(
                "record_small", data=small_record(plan, guards), payload=packed
            )
        except CommitUnknownError as error:
            raise LostAppendError(plan.timestamp) from error
        crash_point("after-fast-append")
        self._learn(known.table_id, plan.timestamp, won=bool(rows))
        if not rows:
            return None
        self.cache.note_partitions(known.table_id, plan.new_partitions)
        after = table_row(rows[0])
        before = replace(after, current_version=after.current_version - 1)
        commit = plan.commit
        return Committed(
            before, after.current_version, plan.timestamp, commit.digest, commit.payload
        )

    def _learn(self, table_id: str, proposed: int, *, won: bool) -> None:
        """After a failure the fast road rests: with many writers on a table it seldom wins."""
        with self._lock:
            if won:
                self._last[table_id] = proposed
                self._pauses.pop(table_id, None)
                return
            pause = self._pauses.setdefault(table_id, _Pause())
            pause.left = pause.next
            pause.next = min(pause.next * 2, _LONGEST_PAUSE)


def _fits(request: CommitRequest, known: TableRow, definition: TableDefinition) -> bool:
    """Tell whether a request is a small blind append that needs no number of its own version."""
    return (
        request.expected_version is None
        and request.state_after is TableState.ACTIVE
        and known.state is TableState.ACTIVE
        and 0 < len(request.actions) <= SMALL
        and all(isinstance(action, Add) for action in request.actions)
        and request.read.version >= max(known.metadata_version, known.protocol_version)
        and is_blind_append(request.actions, request.read)
        and "rowTracking" not in (definition.protocol.writer_features or ())
    )
