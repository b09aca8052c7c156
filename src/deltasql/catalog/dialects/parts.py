"""Reads very many numbered rows in parts, each on a thread and a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pyarrow as pa

from deltasql.cores import usable_cores

# More threads than these only wait for memory.
_MOST_PARTS = 4
# Fewer numbers than these are read before a second thread has begun.
_FEWEST_NUMBERS = 100_000
_FARTHEST = 2**63 - 1


def number_ranges(
    first: int | None, last: int | None, *, cores: int | None = None
) -> list[tuple[int, int]]:
    """Return ranges, open at their end, that share out the numbers from about first to about last.

    Together they hold every number there is: the outermost reach as far as numbers go.
    """
    span = last - first + 1 if first is not None and last is not None else 0
    parts = max(1, min(cores or usable_cores(), _MOST_PARTS, span // _FEWEST_NUMBERS))
    inner = [(first or 0) + span * part // parts for part in range(1, parts)]
    ends = [-_FARTHEST, *inner, _FARTHEST]
    return list(pairwise(ends))


def read_side_by_side(
    readers: Iterable[Callable[[], Iterable[pa.RecordBatch]]],
) -> list[pa.RecordBatch]:
    """Run the readers at the same time and return their batches in the readers' order."""
    readers = list(readers)
    with ThreadPoolExecutor(len(readers)) as pool:
        return [batch for part in pool.map(lambda read: list(read()), readers) for batch in part]
