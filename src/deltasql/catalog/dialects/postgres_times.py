"""PostgreSQL's timestamps as what the catalog reckons in: milliseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class MillisLoader(TimestamptzLoader):
    """Reads a timestamp as an integer."""

    def load(self, data: Buffer) -> int:  # type: ignore[override]
        """Return the milliseconds."""
        return (super().load(data) - _EPOCH) // _MILLISECOND
