"""Values as Delta spells them in text: partition values, statistics, literals of filters.

Inside, a value is a plain comparable: int, Decimal, float, str, bool, bytes; dates are days and
timestamps microseconds since 1970 (UTC), so that they are not bound to the years 1 to 9999.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, timedelta, timezone, tzinfo
from decimal import Context, Inexact, InvalidOperation
from decimal import Decimal as Number
from functools import lru_cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from deltasql.errors import BadArgumentError
from deltasql.protocol.schema.types import DataType, Decimal

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)

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

Value: TypeAlias = bool | int | float | Number | str | bytes

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FLOATS = frozenset({"float", "double"})
TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz"})
MICROSECONDS = 1_000_000

# Years before 1 and after 9999 are spelled with a sign, or not, as in Spark.
_DATE = re.compile(r"([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6}-\d{1,2}-\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
)
_SPECIAL_FLOATS = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_INTEGER = re.compile(r"[+-]?\d+")
_EPOCH = dt.date(1970, 1, 1).toordinal()
_CYCLE, _CYCLE_DAYS = 400, 146_097
_DAY_SECONDS = 86_400
_FIRST_SECOND = (dt.date.min.toordinal() - _EPOCH + 2) * _DAY_SECONDS
_LAST_SECOND = (dt.date.max.toordinal() - _EPOCH - 2) * _DAY_SECONDS

# Wide enough for any decimal(38, s) with any literal beside it.
EXACT = Context(prec=400, Emax=100_000, Emin=-100_000)


def decode_z85(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: it is not Z85, or five of its characters say more than four bytes can.
    """
    raw = text.encode(errors="replace")
    if len(raw) % 5 or raw.translate(None, _Z85):
        raise ValueError(text)
    return base64.b85decode(raw.translate(_TO_B85))


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


def integer_range(name: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    half = 1 << (INTEGER_BITS[name] - 1)
    return -half, half - 1


def parse_date(text: str) -> int | None:
    """Return days since 1970, or None if the text is no date."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    # The calendar repeats every 400 years; Python's has the years 1 to 9999 only.
    cycles, year = divmod(int(found[1]) - _CYCLE, _CYCLE)
    try:
        day = dt.date(year + _CYCLE, int(found[2]), int(found[3])).toordinal()
    except ValueError:
        return None
    return day + cycles * _CYCLE_DAYS - _EPOCH


def parse_timestamp(text: str, zone: dt.tzinfo = dt.UTC) -> tuple[int, bool] | None:
    """Return microseconds since 1970 and whether the text tells its zone; None if it is none.

    Without a zone the time is that of `zone`; digits below a microsecond are cut off.
    """
    found = _TIMESTAMP.fullmatch(text.strip())
    days = parse_date(found[1]) if found else None
    if found is None or days is None:
        return None
    hour, minute, second = (int(found[part] or 0) for part in (2, 3, 4))
    if hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004 (a clock)
        return None
    fraction = int((found[5] or "").ljust(6, "0")[:6])
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    away = _offset(found[6]) if found[6] else _offset_at(seconds, zone)
    return (seconds - away) * MICROSECONDS + fraction, found[6] is not None


def _offset_at(seconds: int, zone: dt.tzinfo) -> int:
    """Return how far a zone is from UTC when its clocks show so many seconds since 1970.

    Of an hour that comes twice it is the first, and one that is left out is taken as if the
    clocks had not been set yet: as in Java.
    """
    if zone is dt.UTC:
        return 0
    # years that Python lacks have the rules of the nearest that it has
    known = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
    shown = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(seconds=known)
    away = shown.utcoffset()
    return 0 if away is None else int(away.total_seconds())


def _offset(zone: str) -> int:
    if zone in {"Z", "UTC"}:
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def print_date(days: int) -> str:
    """Return days since 1970 as yyyy-MM-dd.

    Raises:
        ValueError: the year is not within 1 to 9999.
    """
    return dt.date.fromordinal(days + _EPOCH).isoformat()


def print_timestamp(micros: int, *, digits: int = 6) -> str:
    """Return microseconds since 1970 as yyyy-MM-ddTHH:mm:ss with `digits` behind the point.

    Raises:
        ValueError: the year is not within 1 to 9999.
    """
    days, rest = divmod(micros, 86_400 * MICROSECONDS)
    seconds, fraction = divmod(rest, MICROSECONDS)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{print_date(days)}T{clock}.{f'{fraction:06}'[:digits]}"


def parse_number(text: str) -> Number | None:
    """Return the finite number that the text spells, exactly; None if it spells none."""
    try:
        number = EXACT.create_decimal(text.strip())
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() and "_" not in text else None


def parse_special_float(text: str) -> float | None:
    """Return NaN or an infinity as Spark reads it from a text; None if the text is neither."""
    return _SPECIAL_FLOATS.get(text.strip().lower())


def is_nan(value: object) -> bool:
    """Tell whether a value is NaN; filters take it as equal to itself and above all numbers."""
    return isinstance(value, float) and math.isnan(value)


def to_scale(number: Number, kind: Decimal) -> Number | None:
    """Return the number with the type's scale, or None where that would lose digits or overflow."""
    strict = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    try:
        return number.quantize(Number(1).scaleb(-kind.scale), context=strict)
    except (Inexact, InvalidOperation):
        return None


def round_to_float(value: float) -> float | None:
    """Return the 32-bit float nearest to the value, or None where there is none."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


def shortest_float(value: float) -> float:
    """Return the double of fewest digits that rounds to the same 32-bit float."""
    shorter = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((one for one in shorter if round_to_float(one) == value), value)


def parse_partition_value(text: str, kind: DataType, zone: dt.tzinfo = dt.UTC) -> Value | None:
    """Return a non-empty partition value typed, or None if the text does not fit the type.

    Writers of old spelled timestamps without a zone: they are taken as times of `zone`.
    """
    if isinstance(kind, Decimal):
        number = parse_number(text)
        return None if number is None else to_scale(number, kind)
    if kind.name == "timestamp":
        return (parse_timestamp(text, zone) or (None,))[0]
    parse = _PARSERS.get(kind.name)
    return None if parse is None else parse(text, kind.name)


def _utf8_bytes(text: str) -> bytes | None:
    """A binary partition value is written as the text whose UTF-8 it is, as a cast in Spark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _parse_integer(text: str, name: str) -> int | None:
    stripped = text.strip()
    if not _INTEGER.fullmatch(stripped) or len(stripped) > 400:  # noqa: PLR2004 (no number is longer)
        return None
    low, high = integer_range(name)
    number = int(stripped)
    return number if low <= number <= high else None


def _parse_float(text: str, name: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return round_to_float(number) if name == "float" else number


_PARSERS: dict[str, Callable[[str, str], Value | None]] = {
    "string": lambda text, _: text,
    "binary": lambda text, _: _utf8_bytes(text),
    "boolean": lambda text, _: {"true": True, "false": False}.get(text.strip().lower()),
    "date": lambda text, _: parse_date(text),
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    **dict.fromkeys(FLOATS, _parse_float),
    "timestamp_ntz": lambda text, _: (parse_timestamp(text) or (None,))[0],
}


def print_partition_value(value: Value, kind: DataType) -> str:
    """Return a value as Delta writes it in `partitionValues`.

    Raises:
        UnicodeDecodeError: a binary value is not UTF-8; the log has no way to write it.
        ValueError: a date or timestamp lies outside the years 1 to 9999.
    """
    if isinstance(value, Number):
        return format(value, "f")
    return _PRINTERS.get(kind.name, str)(value)


def _ntz(micros: int) -> str:
    text = print_timestamp(micros).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _print_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


_PRINTERS: dict[str, Callable[[Any], str]] = {
    "binary": lambda value: value.decode(),
    "boolean": lambda value: "true" if value else "false",
    "date": print_date,
    "timestamp": lambda value: print_timestamp(value) + "Z",
    "timestamp_ntz": _ntz,
    "double": _print_float,
    "float": lambda value: _print_float(shortest_float(value)),
}
