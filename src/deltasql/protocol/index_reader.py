"""Bounds for an SQL index, read from the statistics of very many files.

Says what `stats.index_bounds` says. What most writers write takes a short way; whatever looks
different in any way takes the long one.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any, TypeAlias

from deltasql.protocol.columns import Leaf
from deltasql.protocol.stats import FileStats, IndexBound, index_bounds
from deltasql.protocol.values import INTEGER_BITS, TIMESTAMPS

Bounds: TypeAlias = tuple[IndexBound, IndexBound]
_Short: TypeAlias = Callable[[Any, Any], Bounds | None]

_UNBOUNDED: Bounds = (None, None)
EXACT = 2**53  # every integer up to here is a double
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
MILLISECOND = 1000
SHORT_TEXT = 32  # shorter ones are neither cut by writers nor by the index
_ISO_LENGTH = len("2000-01-01T00:00:00.000Z")


def index_reader(leaf: Leaf) -> Callable[[FileStats | None], Bounds]:
    """Return what reads the bounds of one column; None stands for an open end."""
    short = _SHORT.get(leaf.type.name)
    name = leaf.physical[0] if len(leaf.physical) == 1 else None

    def read(stats: FileStats | None) -> Bounds:
        if stats is None:
            return _UNBOUNDED
        if short is not None and name is not None:
            found = short(stats.min_values.get(name), stats.max_values.get(name))
            if found is not None:
                return found
        told = index_bounds(stats, leaf)
        return _UNBOUNDED if told is None else told[1:]

    return read


def _integers(low: Any, high: Any) -> Bounds | None:
    if type(low) is int and type(high) is int and -EXACT <= low <= high <= EXACT:
        return float(low), float(high)
    return None


def _doubles(low: Any, high: Any) -> Bounds | None:
    if type(low) is not Number or type(high) is not Number:
        return None
    bottom, top = float(low), float(high)
    return (bottom, top) if -math.inf < bottom <= top < math.inf else None


def _texts(low: Any, high: Any) -> Bounds | None:
    if type(low) is not str or type(high) is not str:
        return None
    plain = low.isascii() and high.isascii() and "\0" not in low and "\0" not in high
    is_short = len(low) <= SHORT_TEXT and len(high) <= SHORT_TEXT
    return (low, high) if plain and is_short and low <= high else None


def _timestamps(low: Any, high: Any) -> Bounds | None:
    bottom, top = _microseconds(low), _microseconds(high)
    if bottom is None or top is None or bottom > top:
        return None
    above = top + MILLISECOND
    # further from 1970 not every microsecond is a double: there bounds are rounded outwards
    return (float(bottom), float(above)) if bottom >= -EXACT and above <= EXACT else None


def _microseconds(raw: Any) -> int | None:
    """Read a time as Spark and most others spell it: 2000-01-01T00:00:00.000Z."""
    if type(raw) is not str or len(raw) != _ISO_LENGTH or raw[4] + raw[7] + raw[10] != "--T":
        return None
    if raw[19] != "." or raw[23] != "Z":
        return None
    try:
        return (dt.datetime.fromisoformat(raw) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


_SHORT: dict[str, _Short] = {
    "double": _doubles,
    "string": _texts,
    **dict.fromkeys(INTEGER_BITS, _integers),
    **dict.fromkeys(TIMESTAMPS, _timestamps),
}
