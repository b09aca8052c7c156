"""Idle connections of one database, each used by one thread at a time.

Connections are opened when they are needed and by the thread that needs them, so that an error is
the caller's at once; psycopg's own pool opens them in the background and tells of a time-out only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from deltasql.errors import CatalogError
from deltasql.forks import abandon, fork_count, start_afresh_after_fork


class Closable(Protocol):
    """What a pool asks of a connection."""

    def close(self) -> object:
        """Close the connection."""


C = TypeVar("C", bound=Closable)


class Pool(Generic[C]):
    """Hands out connections and keeps those that come back whole.

    A connection may die while it is idle, when the server is restarted: it is looked at again
    before it is lent, so that nobody's work fails for that.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        is_usable: Callable[[C], bool],
        is_idle: Callable[[C], bool] | None = None,
    ) -> None:
        """Make a pool; a connection that is not idle when it comes back is closed."""
        self._connect = connect
        self._is_usable = is_usable
        self._is_idle = is_idle or is_usable
        self._lock = threading.Lock()
        self._idle: list[C] = []
        self._closed = False
        start_afresh_after_fork(self)

    @contextmanager
    def connection(self, *, fresh: bool = False) -> Iterator[C]:
        """Lend a connection for the block; a `fresh` one has never been idle.

        In a child that was forked inside of the block it is not given back: it is the parent's.
        """
        process = fork_count()
        connection = self._connect() if fresh else self._take()
        try:
            yield connection
        finally:
            if fork_count() == process:
                self._give_back(connection)
            else:
                abandon(connection)

    def close(self) -> None:
        """Close the idle connections; one in use is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def start_afresh(self) -> None:
        """Leave the parent's connections alone: to close one would end it for the parent too."""
        for connection in self._idle:
            abandon(connection)
        self._idle = []
        self._lock = threading.Lock()

    def _take(self) -> C:
        while True:
            with self._lock:
                if self._closed:
                    raise CatalogError(
                        "The catalog is closed.", hint="Open it again with connect()."
                    )
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            if self._is_usable(connection):
                return connection
            connection.close()

    def _give_back(self, connection: C) -> None:
        if self._is_idle(connection):
            with self._lock:
                if not self._closed:
                    self._idle.append(connection)
                    return
        connection.close()


def weakly(method: Callable[[], C]) -> Callable[[], C]:
    """Return a call of a method that does not keep its object alive."""
    reference = weakref.WeakMethod(method)

    def call() -> C:
        bound = reference()
        if bound is None:
            raise CatalogError("The catalog is closed.")
        found: C = bound()
        return found

    return call
