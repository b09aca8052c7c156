"""A catalog that is opened when it is there, and made only by a call that creates something."""

from __future__ import annotations

import threading
from collections.abc import Callable

from deltasql.client.session import Session
from deltasql.errors import CatalogError, SchemaMissingError
from deltasql.forks import start_afresh_after_fork


class LazySession:
    """The session of one catalog.

    `find` opens the catalog, or raises SchemaMissingError; `make` makes what is missing and opens
    it. Both leave nothing open where they fail.
    """

    def __init__(self, find: Callable[[], Session], make: Callable[[], Session]) -> None:
        self._find = find
        self._make = make
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._is_closed = False
        start_afresh_after_fork(self)

    def start_afresh(self) -> None:
        """Take a lock of its own: in a child nobody would release the parent's."""
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The open catalog; one that another process has made since is found.

        Raises:
            SchemaMissingError: there is none; says what is there.
        """
        return self._session or self._open(self._find)

    def create(self) -> Session:
        """Return the open catalog; one that is missing is made.

        Raises:
            SchemaMissingError: the settings do not allow it.
        """
        return self._session or self._open(self._make)

    def open_if_there(self) -> None:
        """Open the catalog unless it is missing."""
        try:
            self._open(self._find)
        except SchemaMissingError:
            return

    def close(self) -> None:
        """Close the catalog; it is not opened again."""
        with self._lock:
            self._is_closed = True
            session = self._session
        if session is not None:
            session.close()

    def _open(self, how: Callable[[], Session]) -> Session:
        with self._lock:
            if self._is_closed:
                raise CatalogError("The catalog is closed.", hint="Open it again with connect().")
            if self._session is None:
                self._session = how()
            return self._session
