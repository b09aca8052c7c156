"""Points in time as users write them, in milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo

from deltasql.client.arguments import is_whole
from deltasql.errors import BadArgumentError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime | date | int | str, zone: tzinfo = UTC) -> int:
    """Return a datetime, a date, ISO text or a number of milliseconds; no zone means `zone`.

    Parts of a millisecond are cut off: a moment before a commit does not see it.

    Raises:
        BadArgumentError: it is no time.
    """
    if is_whole(moment):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise _no_time(moment) from error
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time.min)
    if not isinstance(moment, datetime) or moment != moment:  # noqa: PLR0124 (pandas' NaT)
        raise _no_time(moment)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int((moment - _EPOCH) // _MILLISECOND)


def time_text(milliseconds: int) -> str:
    """Return a time in UTC as ISO text; outside of the years 1 to 9999, as its number."""
    try:
        return (_EPOCH + milliseconds * _MILLISECOND).isoformat()
    except OverflowError:
        return f"{milliseconds} ms since 1970"


def _no_time(given: object) -> BadArgumentError:
    return BadArgumentError(
        f"{given!r} is not a time.",
        hint="Give a datetime, a text like 2026-01-31T12:00:00Z, or milliseconds since 1970.",
    )
