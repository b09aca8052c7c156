"""Read the next piece while this one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(given: Iterator[T]) -> Iterator[T]:
    """Yield what is given, each already on its way while the caller has the one before."""
    with ThreadPoolExecutor(1, thread_name_prefix="deltasql-ahead") as pool:
        coming = pool.submit(next, given, None)
        while (found := coming.result()) is not None:
            coming = pool.submit(next, given, None)
            yield found
