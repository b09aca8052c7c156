"""How a write to one table is made: find a repetition, pin, stage, commit, or pin anew.

Every write of `Table` and the second half of a two-step write go through `write_table`. What they
do differs only in the work that they stage and in the versions that they may be tried on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deltasql.catalog.commit_request import CommitRequest, Committed
from deltasql.catalog.repeats import WriteSummary
from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.repeats import written_before
from deltasql.client.session import Session
from deltasql.client.staging import CommitOptions, StagedTable
from deltasql.errors import CommitConflictError, TableNotFoundError, TableStateError
from deltasql.protocol.actions import Metadata, Protocol

Work = Callable[[StagedTable], None]

# What the newest version may be fit for although the one that was remembered is not.
STALE = (CommitConflictError, TableStateError, TableNotFoundError)


@dataclass(frozen=True, slots=True)
class Pin:
    """A version to write on; the next pin is tried after an error of `gives_way_to`."""

    snapshot: Callable[[], Snapshot]
    gives_way_to: tuple[type[Exception], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The version that a write has made, or found to be there.

    `row` is the table after it, where the table's rules are those of before.
    """

    version: int
    row: TableRow | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """How a write is committed: the caller's options, the table's state after it."""

    options: CommitOptions
    meant: WriteSummary | None = None
    state_after: TableState = TableState.ACTIVE
    began_ms: int | None = None


def once(newest: Callable[[], Snapshot]) -> tuple[Pin, ...]:
    """Return the newest version as the only one that a write is tried on."""
    return (Pin(newest),)


def replanned(newest: Callable[[], Snapshot], tries: int) -> tuple[Pin, ...]:
    """Return N pins of the newest version, for work that is cheap to plan again."""
    return (*(Pin(newest, (CommitConflictError,)) for _ in range(tries - 1)), Pin(newest))


def write_table(
    session: Session, table_id: str, work: Work, commit: Commit, pins: Sequence[Pin]
) -> Written:
    """Commit what `work` stages on the first of the pins that takes it.

    A write that was made before, by its token or its application, is not made again. The token is
    looked up at first only where it is known what is `meant`; the commit itself always does.
    """
    options = commit.options
    known = options
    if commit.meant is None and options.commit_id is not None:
        known = replace(options, commit_id=None)
    found = written_before(session, table_id, known, commit.meant)
    if found is not None:
        return Written(found)
    token = options.commit_id or session.connection.new_id()
    for pin in pins:
        staged = StagedTable(session, pin.snapshot())
        try:
            if commit.began_ms is not None:
                staged.begin_writing(commit.began_ms)
            work(staged)
            return _commit(session, staged, commit, token)
        except pin.gives_way_to:
            continue
        finally:
            staged.end()
    raise AssertionError("the last pin gives way to nothing")


def _commit(session: Session, staged: StagedTable, commit: Commit, token: str) -> Written:
    options, snapshot = commit.options, staged.snapshot
    expected = options.expected_version
    if staged.is_empty and options.txn is None and expected in (None, snapshot.version):
        return Written(snapshot.version)
    request = staged.request(options, token, commit.state_after)
    try:
        done = session.commit([request])[0]
    except CommitConflictError:
        found = written_before(session, request.table_id, options, request.summary())
        if found is None:
            raise
        return Written(found)  # the same write, sent twice at once
    return Written(done.version, _row_after(request, done))


def _row_after(request: CommitRequest, done: Committed) -> TableRow | None:
    if any(isinstance(action, Metadata | Protocol) for action in request.actions):
        return None
    newest = max(done.version, done.before.current_version)
    return replace(done.before, current_version=newest)
