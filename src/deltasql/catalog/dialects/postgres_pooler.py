"""Does a connection keep its server session, or does a pooler share it between its clients?

A pooler in transaction mode (PgBouncer, RDS Proxy and others) gives each transaction any server
session. Settings such as the search path then belong to whoever ran before: a commit could go to
another catalog of the same database. Such a pool is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any

import psycopg

from deltasql.errors import PoolModeError

# One look can miss by chance that two clients share a session; so many in a row do not.
_LOOKS = 8
_PATIENCE_S = 5.0


def require_own_session(
    connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> int:
    """Refuse a pool that shares server sessions between its clients; return the server process.

    Two clients take turns. In session mode each has one server process, its own; in transaction
    mode they meet on one process or change it. A second client that gets no process at all, while
    the first one does nothing, has met a full pool that keeps its sessions.

    Raises:
        PoolModeError: the pool shares server sessions.
    """
    ours, theirs = set(), set()
    other = _open_within(connect, _PATIENCE_S)
    try:
        for _ in range(_LOOKS):
            ours.add(server_process(connection))
            if other is not None:
                theirs.add(server_process(other))
    finally:
        if other is not None:
            other.close()
    if len(ours) > 1 or len(theirs) > 1 or ours & theirs:
        info = connection.info
        raise PoolModeError(
            f"The server at {info.host}:{info.port} is a connection pool in transaction mode: it "
            "does not keep the settings of a connection.",
            host=info.host,
            port=info.port,
        )
    return ours.pop()


def _open_within(
    connect: Callable[[], psycopg.Connection[Any]], seconds: float
) -> psycopg.Connection[Any] | None:
    """Return another client that a server process answers; None where it waits too long."""
    answered: Future[psycopg.Connection[Any]] = Future()

    def run() -> None:
        other = None
        try:
            other = connect()
            server_process(other)
            answered.set_result(other)
        except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
            if other is not None:
                other.close()
            with suppress(InvalidStateError):  # nobody waits any more
                answered.set_exception(error)

    threading.Thread(target=run, name="deltasql-pool-check", daemon=True).start()
    try:
        return answered.result(timeout=seconds)
    except FutureTimeoutError:
        if answered.cancel():
            return None
        return answered.result()


def server_process(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the server process that answers."""
    return int(connection.execute("select pg_backend_pid()", prepare=False).fetchall()[0][0])
