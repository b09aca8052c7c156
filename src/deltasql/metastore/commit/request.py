"""What is asked of a commit and what came of it; a repeated request is found by its token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from deltasql.errors import InvalidCommitError
from deltasql.metastore.table_row import NewTable, TableRow, TableState
from deltasql.protocol.actions import Action, Add, Remove
from deltasql.protocol.conflicts import ReadSet, is_blind_append

# Delta's name of the rows that a write adds.
_ROWS = "numOutputRows"

# Operations that callers do not name themselves: a name of theirs may change from try to try.
_OPERATIONS = frozenset(
    {
        "WRITE",
        "DELETE",
        "OPTIMIZE",
        "RESTORE",
        "ADD COLUMNS",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
    }
)


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What a write says of itself.

    `rows` and `files` (adds and removes) are None where they are not known. Rows that are written
    a second time lie in other files, so `files` are known only where the caller named them.
    """

    operation: str
    mode: str | None = None
    rows: int | None = None
    files: tuple[int, int] | None = None

    def __str__(self) -> str:
        mode = "" if self.mode is None else f" ({self.mode})"
        rows = "" if self.rows is None else f" of {self.rows} rows"
        files = "" if self.files is None else f", {self.files[0]} adds and {self.files[1]} removes"
        return f"{self.operation}{mode}{rows or files}"

    def differs(self, other: WriteSummary) -> bool:
        """Tell whether two writes are surely not the same."""
        names = {self.operation, other.operation}
        if names <= _OPERATIONS and (len(names) > 1 or self.mode != other.mode):
            return True
        known = ((self.rows, other.rows), (self.files, other.files))
        return any(None not in pair and pair[0] != pair[1] for pair in known)


def summarize(
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, Any],
    files: tuple[int, int],
) -> WriteSummary:
    """Summarize a commit by what its history tells."""
    rows = str(metrics.get(_ROWS, ""))
    return WriteSummary(
        operation,
        parameters.get("mode"),
        int(rows) if rows.isdecimal() else None,
        None if metrics else files,
    )


def stored_summary(columns: Sequence[Any]) -> WriteSummary:
    """Summarize a commit that SQL has, by the last columns of `version_by_commit_id`."""
    operation, parameters, metrics, adds, removes = columns
    decode = msgspec.json.decode
    return summarize(operation, decode(parameters), decode(metrics), (adds, removes))


def count_files(actions: Iterable[Action]) -> tuple[int, int]:
    """Return how many files a commit adds and removes."""
    kinds = [type(action) for action in actions]
    return kinds.count(Add), kinds.count(Remove)


def require_same_write(table: str, version: int, made: WriteSummary, meant: WriteSummary) -> None:
    """Refuse a write whose token belongs to another one.

    Raises:
        InvalidCommitError: says what the token was used for.
    """
    if made.differs(meant):
        raise InvalidCommitError(
            f"The commit_id was used before for another write: version {version} of {table} is "
            f"{made}; this is {meant}, and it was not made.",
            hint=f"If it is the same write sent again, it is done: version {version} holds it. "
            "Otherwise choose a new commit_id.",
            table=table,
            version=version,
        )


def other_transaction_error(versions: Mapping[str, int]) -> InvalidCommitError:
    """Return the error for a token that belongs to a transaction on other tables."""
    named = ", ".join(f"{name}@{version}" for name, version in versions.items())
    return InvalidCommitError(
        f"The commit_id was used before for another transaction ({named}); nothing was committed.",
        hint="Choose a new commit_id for each transaction.",
    )


@dataclass(frozen=True, slots=True)
class CommitNote:
    """Who commits and what for; ends up in commitInfo and in the history."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    committer: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One table's part of a transaction.

    `known` is the table's row as the caller last saw it, `restores` an older version whose files
    come back, `work_id` the note by which vacuum knows of a write that took long.
    """

    table_id: str
    actions: tuple[Action, ...]
    read: ReadSet
    note: CommitNote
    commit_id: str
    expected_version: int | None = None
    state_after: TableState = TableState.ACTIVE
    known: TableRow | None = None
    restores: int | None = None
    work_id: str | None = None

    def summary(self) -> WriteSummary:
        """Return what the commit says of itself, to be compared with one of the same token.

        What a write read may have made its rows: sent again it reads its own commit, and has
        others. So only those of a blind append are compared.
        """
        note = self.note
        files = count_files(self.actions)
        summary = summarize(note.operation, note.parameters, note.metrics, files)
        is_blind = is_blind_append(self.actions, self.read)
        return summary if is_blind else replace(summary, rows=None, files=None)


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table that a transaction read and does not write; it must not have changed meanwhile."""

    table_id: str
    read: ReadSet
    note: CommitNote
    commit_id: str
    known: TableRow

    def as_request(self) -> CommitRequest:
        """Return a request without actions: the same winners contradict it."""
        return CommitRequest(
            self.table_id, (), self.read, self.note, self.commit_id, known=self.known
        )


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """All that is committed together, or not at all.

    `reads` are tables that were read and get no version: they must still be as they were. `create`
    is a table that the only request makes.
    """

    requests: Sequence[CommitRequest]
    reads: Sequence[TableRead] = ()
    transaction_id: str | None = None
    create: NewTable | None = None

    @property
    def table_ids(self) -> list[str]:
        """The tables that are written or read."""
        return [*(one.table_id for one in self.requests), *(one.table_id for one in self.reads)]

    @property
    def is_single(self) -> bool:
        """Tell whether it is one write to one table that is there."""
        is_alone = len(self.requests) == 1 and not self.reads
        return is_alone and self.transaction_id is None and self.create is None


@dataclass(frozen=True, slots=True)
class Committed:
    """A version that SQL has; `before` is its table as it was under the lock.

    `made` summarizes a commit that was found by its token.
    """

    before: TableRow
    version: int
    timestamp: int
    digest: str
    payload: bytes | None = field(default=None, repr=False)
    made: WriteSummary | None = None
