"""Points in time as users write them, in milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

from deltasql.errors import BadArgumentError


def to_ms(moment: datetime | int | str) -> int:
    """Return a datetime, ISO text or number of milliseconds; no zone means UTC.

    Raises:
        BadArgumentError: the text is no time.
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise BadArgumentError(
                f"{moment!r} is not a time like 2026-01-31T12:00:00Z."
            ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    """Return a time in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
