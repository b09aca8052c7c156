"""Ranges by their reach, so that a B-tree finds those that overlap another range.

The reach of a range is the exponent of the power of two above its width. Ranges of one reach that
overlap [a, b] begin between a - 2^reach and b: one short piece of an index on (reach, low). Real
columns have a handful of reaches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

# A double's exponent lies between; the schema's default is UNBOUNDED, which is never wrong.
POINT, UNBOUNDED = -2000, 2000
# A filter over more reaches than this looks at all ranges; SQLite joins at most 500 queries.
MAX_REACHES = 64


def reach_of(low: float, high: float) -> int:
    """Return the reach of a range: the width is less than 2 to its power."""
    width = high - low
    if width <= 0:  # who overlaps [a, b] begins at a or behind it, also a range that is reversed
        return POINT
    return UNBOUNDED if math.isinf(width) else math.frexp(width)[1]


def reaches_of(
    lows: npt.NDArray[np.float64], highs: npt.NDArray[np.float64]
) -> npt.NDArray[np.int16]:
    """Return the reaches of many ranges; the same as `reach_of`."""
    width = highs - lows
    exponents = np.frexp(np.where(np.isfinite(width), width, 0.0))[1]
    open_ended = np.where(width > 0, UNBOUNDED, POINT)
    found: Any = np.where((width > 0) & np.isfinite(width), exponents, open_ended)
    return found.astype(np.int16)  # type: ignore[no-any-return]


def least_low(reach: int, low: float) -> float:
    """Return where a range of this reach begins at the earliest that ends at `low` or behind it."""
    if reach == POINT:
        return low
    if reach == UNBOUNDED or math.isinf(low):
        return -math.inf
    return math.nextafter(low - math.ldexp(1.0, reach), -math.inf)
