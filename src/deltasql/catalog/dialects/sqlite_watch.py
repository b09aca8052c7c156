"""How a worker sees commits in SQLite: the file's data version moves, which is cheap to ask."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class _Rows(Protocol):
    def look(self) -> AbstractContextManager[None]: ...

    def rows(self, text: str) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class SqliteWatch:
    """Looks at the data version: it moves with every commit of another connection."""

    def __init__(self, connection: _Rows, pause: Callable[[float], None] = time.sleep) -> None:
        self._connection = connection
        self._pause = pause
        self._seen = self._version()

    def heard(self, seconds: float) -> bool:
        """Wait at most so long; tell whether somebody committed since the last call."""
        if self._has_moved():
            return True
        self._pause(seconds)
        return self._has_moved()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _has_moved(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _version(self) -> int:
        with self._connection.look():
            return int(self._connection.rows("pragma data_version")[0][0])
