"""Transaction: many tables, one SQL commit, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.repeats import written_before
from deltasql.client.session import Session
from deltasql.client.staging import CommitOptions, StagedTable
from deltasql.errors import BadArgumentError, TableNotFoundError


class Transaction:
    """Stages work on any tables of a catalog; the end of the `with` block commits it.

    An exception inside the block forgets everything that was staged. Each table is pinned at the
    version it has when it is first named; a conflict refuses the whole transaction.
    """

    def __init__(self, session: Session, options: CommitOptions) -> None:
        self._session = session
        self._options = options
        self._tables: dict[str, StagedTable] = {}
        self._pinned: dict[str, TableRow] | None = None
        self._versions: Mapping[str, int] | None = None
        self.transaction_id = options.commit_id or session.new_id()

    def table(self, name: str) -> StagedTable:
        """Return a table to stage work on; the same one each time it is named."""
        if self._versions is not None:
            raise BadArgumentError("The transaction has ended.")
        row = self._row(name)
        staged = self._tables.get(row.table_id)
        if staged is None:
            staged = self._tables[row.table_id] = StagedTable(self._session, self._snapshot(row))
        return staged

    def _snapshot(self, row: TableRow) -> Snapshot:
        if self._pinned is None:
            return self._session.book.snapshot(row.table_id)
        found = self._session.book.snapshot(row.table_id, version=row.current_version)
        return replace(found, table=row)  # as it was pinned: its versions may get other numbers

    def pin(self) -> list[TableRow]:
        """Pin every table at the version it has now, in one look, and return them by name."""
        if self._pinned is None:
            rows = self._session.book.tables()
            shown = [row for row in rows if row.state is not TableState.IMPORTING]
            self._pinned = {row.full_name: row for row in shown}
        return list(self._pinned.values())

    def _row(self, name: str) -> TableRow:
        if self._pinned is None:
            return self._session.book.table(name)
        if name not in self._pinned:
            raise TableNotFoundError(f"There is no table {name!r} in the catalog.", table=name)
        return self._pinned[name]

    def commit(self) -> Mapping[str, int]:
        """Commit what was staged and return the new version of each table.

        Raises:
            CommitConflictError: somebody else changed what was read; nothing was committed.
        """
        if self._versions is not None:
            return self._versions
        staged = [table for table in self._tables.values() if not table.is_empty]
        before = self._before(staged)
        if before:
            self._versions = before
            self._end()
            return before
        requests = [table.request(self._options, self.transaction_id) for table in staged]
        if requests:
            others = [table for table in self._tables.values() if table.is_empty]
            found = [table.as_read(self.transaction_id) for table in others]
            reads = [read for read in found if read is not None]
            done = self._session.commit(requests, transaction_id=self.transaction_id, reads=reads)
            self._versions = {one.before.full_name: one.version for one in done}
        else:
            self._versions = {}
        self._end()
        return self._versions

    def _before(self, staged: Sequence[StagedTable]) -> Mapping[str, int]:
        """Return what to tell if the application has written this to all of the tables before.

        If it has only to some, the commit refuses: then it is not the same transaction.
        """
        if self._options.txn is None:
            return {}
        rows = [table.snapshot.table for table in staged]
        found = {
            r.full_name: written_before(self._session, r.table_id, self._options) for r in rows
        }
        versions = {name: version for name, version in found.items() if version is not None}
        return versions if len(versions) == len(rows) else {}

    def _end(self) -> None:
        for table in self._tables.values():
            table.end()

    @property
    def versions(self) -> Mapping[str, int]:
        """The version each table got, by its name; empty before the commit."""
        return self._versions or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.commit()
            else:
                self._versions = {}
        finally:
            self._end()
