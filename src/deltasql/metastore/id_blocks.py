"""Numbers for rows, taken from the database in blocks so that most commits ask for none."""

from __future__ import annotations

import threading

from deltasql.catalog.database import Database
from deltasql.forks import start_afresh_after_fork

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
        with self._database.write() as work:
            end = work.rows("take_ids", name=self._name, amount=amount)[0][0]
        self._next, self._end = end - amount, end
