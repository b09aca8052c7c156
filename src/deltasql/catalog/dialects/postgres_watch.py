"""How a worker hears of commits on PostgreSQL: writers NOTIFY, it LISTENs.

A sign is a hint and nothing more: one that is lost costs the time until the next poll, one too
many costs a look; see docs/decisions/0014.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

import psycopg
from psycopg import sql

from deltasql.catalog.dialects.postgres_errors import mapped

_PREFIX = "deltasql_"
# PostgreSQL's longest name; a longer channel is refused.
_LONGEST = 63


def channel_of(schema: str) -> str:
    """Return the channel of the catalog in a schema; every database has channels of its own."""
    name = f"{_PREFIX}{schema}"
    if len(name.encode()) <= _LONGEST:
        return name
    return f"{_PREFIX}{hashlib.sha256(schema.encode()).hexdigest()[:32]}"


class PostgresWatch:
    """Listens on the catalog's channel, on a connection of its own."""

    def __init__(self, conninfo: str, channel: str) -> None:
        with mapped():
            self._connection = psycopg.connect(conninfo, autocommit=True)
            try:
                self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            except BaseException:
                self._connection.close()
                raise

    def heard(self, seconds: float) -> bool:
        """Wait at most so long; tell whether somebody committed since the last call."""
        with mapped():
            signs = len(list(self._connection.notifies(timeout=seconds, stop_after=1)))
            if signs:  # what else has come asks for the same look
                signs += len(list(self._connection.notifies(timeout=0)))
            return signs > 0

    def close(self) -> None:
        """Let go of the connection."""
        with suppress(psycopg.Error):
            self._connection.close()
