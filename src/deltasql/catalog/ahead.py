"""Read the next piece while this one is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(given: Iterator[T]) -> Generator[T]:
    """Yield what is given, each already on its way while the caller has the one before.

    A caller that may leave early closes it: what is on its way is waited for then.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="deltasql-ahead") as pool:
        coming = pool.submit(next, given, None)
        while (found := coming.result()) is not None:
            coming = pool.submit(next, given, None)
            yield found
