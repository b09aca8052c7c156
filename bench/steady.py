"""Commits at a steady pace over many tables, and what became of them; run in a child."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import backlog
from bench.child import CaseFailedError

Times = list[float]


def keep_pace(commit: Callable[[int], None], count: int, rate: float) -> Times:
    """Make commits number 0 to count - 1, so many a second; return the seconds each one took.

    The schedule is fixed: what comes late is made at once and the pace is kept from then on.
    """
    took: Times = []
    begun = time.perf_counter()
    for number in range(count):
        wait = begun + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        started = time.perf_counter()
        commit(number)
        took.append(time.perf_counter() - started)
    return took


def make_tables(catalog: Any, folder: str, count: int) -> list[Any]:
    """Make empty tables below a folder or a bucket."""
    return [backlog.create(catalog, f"{folder}/{name}", name) for name in backlog.names(count)]


def committed_at(tables: Sequence[Any]) -> dict[str, list[list[float]]]:
    """Return the versions of each table that hold a file, with the time that they carry."""
    return {
        table.name: [[one.version, one.committed_at] for one in table.history() if one.adds]
        for table in tables
    }


def lags(
    committed: dict[str, list[list[float]]], mirrored: Sequence[Sequence[Any]]
) -> dict[str, dict[int, float]]:
    """Return per table and version the seconds from its commit to its log.

    Raises:
        CaseFailedError: a version was never mirrored.
    """
    seen: dict[tuple[str, int], float] = {}
    for name, version, at in mirrored:
        seen[name, version] = min(at, seen.get((name, version), at))
    missing = [(name, v) for name, made in committed.items() for v, _ in made]
    missing = [one for one in missing if one not in seen]
    if missing:
        raise CaseFailedError(f"nobody told of {len(missing)} versions, the first: {missing[0]}")
    return {
        name: {int(v): max(seen[name, int(v)] - at, 0.0) / 1000 for v, at in versions}
        for name, versions in committed.items()
    }
