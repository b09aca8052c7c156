"""Points in time as users write them, in milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from deltasql.errors import BadArgumentError


def to_ms(moment: datetime | int | str, zone: tzinfo = UTC) -> int:
    """Return a datetime, ISO text or number of milliseconds; what names no zone is in `zone`.

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
        moment = moment.replace(tzinfo=zone)
    return round(moment.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    """Return a time in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
