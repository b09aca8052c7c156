"""What a caller wants committed, and what came of it, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltasql.catalog.registry import NewTable
from deltasql.catalog.repeats import WriteSummary, count_files, summarize
from deltasql.catalog.rows import TableRow, TableState
from deltasql.protocol.actions import Action
from deltasql.protocol.conflicts import ReadSet, is_blind_append


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
