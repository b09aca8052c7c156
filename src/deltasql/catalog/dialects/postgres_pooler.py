"""Does a connection keep its server session, or does a pooler share it between its clients?

A pooler in transaction mode (PgBouncer, RDS Proxy and others) gives each transaction any server
session. Settings such as the search path then belong to whoever ran before: a commit could go to
another catalog of the same database. Such a pool is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from deltasql.errors import PoolModeError

# One look can miss by chance that two clients share a session; so many in a row do not.
_LOOKS = 8


def require_own_session(
    connection: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> int:
    """Refuse a pool that shares server sessions between its clients; return the server process.

    Two clients take turns. In session mode each has one server process, its own; in transaction
    mode they meet on one process or change it.

    Raises:
        PoolModeError: the pool shares server sessions.
    """
    with closing(connect()) as other:
        ours, theirs = set(), set()
        for _ in range(_LOOKS):
            ours.add(_server_process(connection))
            theirs.add(_server_process(other))
    if len(ours) > 1 or len(theirs) > 1 or ours & theirs:
        info = connection.info
        raise PoolModeError(
            f"The server at {info.host}:{info.port} is a connection pool in transaction mode: it "
            "does not keep the settings of a connection.",
            host=info.host,
            port=info.port,
        )
    return ours.pop()


def _server_process(connection: psycopg.Connection[Any]) -> int:
    return int(connection.execute("select pg_backend_pid()", prepare=False).fetchall()[0][0])
