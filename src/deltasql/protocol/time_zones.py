"""Zones by the names that Spark gives them: a time that names no zone is one of some zone."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from deltasql.errors import BadArgumentError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_FARTHEST = timedelta(hours=18)
_UTC = frozenset({"Z", "UTC", "GMT", "UT", "Etc/UTC", "Etc/GMT"})
# Short names that Java knows beside those of the list of zones.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


@lru_cache(maxsize=64)
def parse_zone(name: str) -> tzinfo:
    """Return a zone by its name, a place or a distance to UTC.

    Raises:
        BadArgumentError: there is no such zone.
    """
    if name in _UTC:
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is not None:
        away = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        if away <= _FARTHEST:
            return timezone(-away if found[1] == "-" else away)
    try:
        return ZoneInfo(_SHORT.get(name, name))
    except (ValueError, OSError, KeyError) as error:
        raise BadArgumentError(
            f"The time zone {name!r} is not known.",
            hint="Give a name such as Europe/Berlin or a distance such as +02:00; where the "
            "machine has no list of zones, install tzdata.",
        ) from error
