"""One write from start to end: pin a version, write the files, commit, and find a repeated commit
again.

Every write of `Table` and the second half of a two-step write go through `write_table`. What they
do differs only in the work that they stage and in the versions that they may be tried on. A
transaction has pinned and staged its tables by itself; `commit_tables` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from deltasql.api.session import Session
from deltasql.api.write.table_write import CommitOptions, TableWrite
from deltasql.errors import CommitConflictError, TableNotFoundError, TableStateError
from deltasql.events import CommitRepeated
from deltasql.metastore.commit.request import (
    CommitRequest,
    Committed,
    WriteSummary,
    other_transaction_error,
)
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.protocol.actions import Metadata, Protocol

# Libraries whose data frames know their length; others, such as DuckDB's, would run a query.
_FRAMES = frozenset({"pandas", "polars"})

Staging = Callable[[TableWrite], None]

# What the newest version may be fit for although the one that was remembered is not.
STALE = (CommitConflictError, TableStateError, TableNotFoundError)


def written_before(
    session: Session, table_id: str, options: CommitOptions, meant: WriteSummary | None = None
) -> int | None:
    """Return the version to report for a write that was made before, or None.

    `meant` is what the caller is about to write, as far as it is known.

    Raises:
        InvalidCommitError: the token was used before for another write.
    """
    version = _find(session, table_id, options, meant)
    if version is not None:
        name = session.connection.metastore.table_by_id(table_id).full_name
        session.connection.emit(CommitRepeated(table_id=table_id, table=name, version=version))
    return version


def _find(
    session: Session, table_id: str, options: CommitOptions, meant: WriteSummary | None
) -> int | None:
    metastore = session.connection.metastore
    if options.commit_id is not None:
        found = metastore.version_of_write(table_id, options.commit_id, meant)
        if found is not None:
            return found
    if options.txn is not None:
        app_id, number = options.txn
        written = metastore.txn_version(table_id, app_id)
        if written is not None and written >= number:
            holder = metastore.version_of_txn(table_id, app_id, number)
            # its version is no longer in the history; the rows are in the newest version as well
            return metastore.table_by_id(table_id).current_version if holder is None else holder
    return None


def count_rows(data: Any) -> int | None:
    """Return how many rows a caller gives, where that is known before they are read."""
    rows = getattr(data, "num_rows", None)
    if isinstance(rows, int):
        return rows
    kind = type(data)
    is_frame = kind.__module__.partition(".")[0] in _FRAMES and hasattr(kind, "__len__")
    return len(data) if is_frame or isinstance(data, list) else None


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
    session: Session, table_id: str, work: Staging, commit: Commit, pins: Sequence[Pin]
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
        staged = TableWrite(session, pin.snapshot())
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


def _commit(session: Session, staged: TableWrite, commit: Commit, token: str) -> Written:
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


def commit_tables(
    session: Session, tables: Sequence[TableWrite], options: CommitOptions, transaction_id: str
) -> dict[str, int]:
    """Commit what was staged on all tables at once and return the version of each by its name.

    A table that was written before, by the token or its application, gets no version again.

    Raises:
        CommitConflictError: somebody else changed what was read; nothing was committed.
    """
    parts = _sorted_out(tables, options)
    repeated = _token_of_unchanged(session, parts, options, transaction_id)
    written = _versions_by_application(session, parts.changed, options)
    new = [table for table in parts.changed if _name(table) not in written]
    requests = [table.request(options, transaction_id) for table in new]
    if not requests:
        return repeated | written
    reads = [table.as_read(transaction_id) for table in tables if table not in new]
    try:
        done = session.commit(
            requests,
            transaction_id=transaction_id,
            reads=[read for read in reads if read is not None],
        )
    except CommitConflictError:
        # the same write of another thread or process may have won
        written = _versions_by_application(session, parts.changed, options)
        if len(written) < len(parts.changed):
            raise
        return repeated | written
    return repeated | written | {one.before.full_name: one.version for one in done}


class _Parts(NamedTuple):
    """The tables of a transaction by what was done to them; those only read are in neither."""

    changed: list[TableWrite]
    unchanged: list[TableWrite]


def _sorted_out(tables: Sequence[TableWrite], options: CommitOptions) -> _Parts:
    """That an application has written is a change too, also where its work changed nothing."""
    changed, unchanged = [], []
    for table in tables:
        if not table.is_empty or (options.txn is not None and table.was_written):
            changed.append(table)
        elif table.was_written:
            unchanged.append(table)
    return _Parts(changed, unchanged)


def _token_of_unchanged(
    session: Session, parts: _Parts, options: CommitOptions, transaction_id: str
) -> dict[str, int]:
    """Return the tables that this changes only the first time it is sent, with the version.

    A delete that is sent again finds its rows gone: it stages nothing, its token is there.
    """
    if options.commit_id is None:
        return {}
    made = _versions_of_token(session, parts.unchanged, transaction_id)
    if made and len(_versions_of_token(session, parts.changed, transaction_id)) < len(
        parts.changed
    ):
        raise other_transaction_error(made)
    return made


def _versions_of_token(
    session: Session, tables: Sequence[TableWrite], token: str
) -> dict[str, int]:
    metastore = session.connection.metastore
    versions = {
        _name(table): metastore.version_of(table.snapshot.table.table_id, token) for table in tables
    }
    return {name: version for name, version in versions.items() if version is not None}


def _versions_by_application(
    session: Session, tables: Sequence[TableWrite], options: CommitOptions
) -> dict[str, int]:
    """Return the tables that the application has written this to before, with a version.

    As in Delta, each table knows by itself: it is left alone, the others are written.
    """
    if options.txn is None:
        return {}
    versions = {
        _name(table): written_before(session, table.snapshot.table.table_id, options)
        for table in tables
    }
    return {name: version for name, version in versions.items() if version is not None}


def _name(table: TableWrite) -> str:
    return table.snapshot.table.full_name
