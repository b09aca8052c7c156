"""Transaction: many tables, one SQL commit, all or nothing."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from deltasql.api.session import Session
from deltasql.api.write.driver import commit_tables
from deltasql.api.write.table_write import CommitOptions, TableWrite
from deltasql.errors import BadArgumentError, missing_table_error
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.runtime.connection import Connection

_logger = logging.getLogger(__name__)


class Transaction:
    """Stages work on any tables of a catalog; the end of the `with` block commits it.

    An exception inside the block forgets everything that was staged. Each table is pinned at the
    version it has when it is first named; a conflict refuses the whole transaction.
    """

    def __init__(self, session: Session, options: CommitOptions) -> None:
        self._session = session
        self._options = options
        self._tables: dict[str, TableWrite] = {}
        self._pinned: dict[str, TableRow] | None = None
        self._versions: Mapping[str, int] | None = None
        self._was_rolled_back = False
        self._was_tried = False
        self.transaction_id = options.commit_id or session.connection.new_id()

    @property
    def _connection(self) -> Connection:
        return self._session.connection

    def table(self, name: str) -> TableWrite:
        """Return a table to stage work on; the same one each time it is named."""
        if self._versions is not None or self._was_rolled_back:
            raise BadArgumentError("The transaction has ended.")
        row = self._row(name)
        staged = self._tables.get(row.table_id)
        if staged is None:
            staged = self._tables[row.table_id] = TableWrite(self._session, self._snapshot(row))
        return staged

    def _snapshot(self, row: TableRow) -> Snapshot:
        if self._pinned is None:
            return self._connection.metastore.snapshot(row.table_id)
        found = self._connection.metastore.snapshot(row.table_id, version=row.current_version)
        return replace(found, table=row)  # as it was pinned

    def pin(self) -> list[TableRow]:
        """Pin every table at the version it has now, in one look, and return them by name."""
        if self._pinned is None:
            rows = self._connection.metastore.tables()
            shown = [row for row in rows if row.state is not TableState.IMPORTING]
            self._pinned = {row.full_name: row for row in shown}
        return list(self._pinned.values())

    def _row(self, name: str) -> TableRow:
        if self._pinned is None:
            return self._connection.metastore.table(name)
        if name not in self._pinned:
            raise missing_table_error(name, self._pinned)
        return self._pinned[name]

    def commit(self) -> Mapping[str, int]:
        """Commit what was staged and return the new version of each table.

        Raises:
            CommitConflictError: somebody else changed what was read; nothing was committed.
        """
        if self._was_rolled_back:
            raise BadArgumentError(
                "The transaction was rolled back and cannot be committed.",
                hint="Begin a new transaction.",
            )
        if self._versions is not None:
            return self._versions
        self._was_tried = True
        self._versions = commit_tables(
            self._session, list(self._tables.values()), self._options, self.transaction_id
        )
        self._end()
        return self._versions

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
            elif self._versions is None:
                self._was_rolled_back = True
        finally:
            self._end()

    def __del__(self) -> None:
        """Warn of staged work that is dropped because nobody committed it."""
        if self._versions is not None or self._was_rolled_back or self._was_tried:
            return
        names = [one.snapshot.table.full_name for one in self._tables.values() if one.was_written]
        if names:
            text = (
                f"A transaction on {', '.join(sorted(names))} was neither committed nor used in a "
                "with block; its work is dropped."
            )
            _logger.warning(text)
            warnings.warn(text, ResourceWarning, stacklevel=1, source=self)
