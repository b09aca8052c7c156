"""Ids in blocks, for files and for row tracking."""

from __future__ import annotations

import threading
from dataclasses import replace

from deltasql.database.port import Database, DbTransaction
from deltasql.forks import start_afresh_after_fork
from deltasql.metastore.commit.request import CommitRequest
from deltasql.metastore.snapshot.definition import TableDefinition
from deltasql.protocol.actions import Add, Protocol
from deltasql.protocol.features import writer_features
from deltasql.protocol.row_tracking import (
    DOMAIN,
    FEATURE,
    read_mark,
    refuse_moved_rows,
    with_row_ids,
)

_BLOCK = 1000


class IdBlocks:
    """Hands out numbers that no other process has; numbers lost in a crash are only gaps."""

    def __init__(self, database: Database, name: str, block: int = _BLOCK) -> None:
        self._database = database
        self._name = name
        self._block = block
        self._lock = threading.Lock()
        self._next = 0
        self._end = 0
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Leave the numbers that are left to the parent."""
        self._lock = threading.Lock()
        self._next = self._end = 0

    def take(self, count: int) -> range:
        """Return `count` numbers in a row; may run a transaction of its own."""
        with self._lock:
            if self._end - self._next < count:
                self._refill(count)
            taken = range(self._next, self._next + count)
            self._next += count
        return taken

    def _refill(self, count: int) -> None:
        amount = max(count, self._block)
        with self._database.write() as tx:
            end = tx.fetch_all("take_ids", name=self._name, amount=amount)[0][0]
        self._next, self._end = end - amount, end


def number_rows(
    tx: DbTransaction, request: CommitRequest, version: int, definition: TableDefinition
) -> CommitRequest:
    """Return the request with ids for all its rows, if its table tracks them.

    Raises:
        InvalidCommitError, UnsupportedFeatureError: they cannot be numbered.
    """
    after = next((a for a in request.actions if isinstance(a, Protocol)), definition.protocol)
    if FEATURE not in writer_features(after) or not _has_files(request):
        return request
    refuse_moved_rows(request.actions, definition.metadata.configuration)
    found = tx.fetch_all("domains_at", table_id=request.table_id, version=version - 1)
    told = [text for domain, text, removed in found if domain == DOMAIN and not removed]
    mark = read_mark(told[0] if told else None)
    return replace(request, actions=with_row_ids(request.actions, version, mark))


def _has_files(request: CommitRequest) -> bool:
    return any(isinstance(action, Add) for action in request.actions)
