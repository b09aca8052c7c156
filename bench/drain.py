"""The case `drain`: one worker, a backlog of many tables, how many commits a second it mirrors."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import backlog, ours
from bench.child import CaseFailedError, call
from bench.results import Bar, Case, Measured, Plan, Row, median_of
from bench.tables import ensure, place_of

TABLES = 20
_TINY = 12  # with a checkpoint in it, so that everything is loaded
_CHECKED = 3
_TITLE = "One worker mirrors a backlog to local files"


def drain(place: dict[str, Any], tiny: dict[str, Any], backend: str) -> Iterator[dict[str, Any]]:
    """In a child: mirror a tiny backlog untimed, then the big one, with the checkpoints due."""
    with ours.connect(tiny, backend, "worker") as catalog:
        catalog.mirror.run_once()
    loaded = set(sys.modules)
    with ours.connect(place, backend, "worker") as catalog:
        wanted = ours.behind(catalog)
        yield {}
        started = time.perf_counter()
        swept = catalog.mirror.run_once()
        seconds = time.perf_counter() - started
        late = sorted(set(sys.modules) - loaded)
        if late:
            raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")
        if swept.failed or swept.mirrored != wanted or ours.behind(catalog):
            raise CaseFailedError(f"{swept.mirrored} of {wanted} versions were mirrored")
    yield {"commits": swept.mirrored, "seconds": seconds}


def backlog_drain(plan: Plan, commits: int) -> Case:
    """Measure SQLite and PostgreSQL in turn; `commits` per table."""
    found: dict[str, list[Measured]] = {name: [] for name in ours.BACKENDS}
    tables = 4 if plan.is_quick else TABLES
    for backend in ours.BACKENDS:
        if plan.has(backend):
            ensure_backlog(plan, backend, tables, commits)
    for _ in range(plan.mirror_rounds):
        for backend, measured in found.items():
            if plan.has(backend):
                measured.append(_round(plan, backend, tables, commits))
                rate = measured[-1]
                plan.say(f"drain, {backend}: {rate.value:,.0f} commits/s {rate.note}")
    rows, bars = [], []
    for backend, measured in found.items():
        name, rate = ours.BACKENDS[backend], median_of(measured)
        seconds = tables * (commits + 1) / rate if rate else None
        rows.append(Row.of(f"deltasql, {name}", measured, {"the whole backlog, s": seconds}))
        bars.append(Bar.least(f"drain, {name}, commits a second", rate, 500, "/s"))
    how = (
        f"Median of {plan.mirror_rounds} rounds. {tables} tables with {commits:,} commits of one "
        "file each, made with the mirror off; then catalog.mirror.run_once, which is `deltasql "
        "mirror run --once`, puts them with the worker's default of 10 tables at once and writes "
        "the checkpoints that are due, all of it timed. Every file and its folder are synced to "
        f"disk. After each round every log is complete, and {min(_CHECKED, tables)} of them are "
        "verified against SQL byte by byte."
    )
    return Case("drain", _TITLE, "1/s", rows, bars, how)


def ensure_backlog(plan: Plan, backend: str, tables: int, commits: int) -> None:
    """Build the backlog, and a tiny one, unless a run before has."""
    ensure(plan, f"backlog1-{backend}", _TINY)
    ensure(plan, f"backlog{tables}-{backend}", commits)


@contextmanager
def copies(
    plan: Plan, backend: str, tables: int, commits: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give copies of the backlog and of the tiny one, with empty logs."""
    kept = place_of(plan, f"backlog{tables}-{backend}", commits)
    small = place_of(plan, f"backlog1-{backend}", _TINY)
    with (
        backlog.copied(plan, kept, backend) as place,
        backlog.copied(plan, small, backend) as tiny,
    ):
        yield place, tiny


def _round(plan: Plan, backend: str, tables: int, commits: int) -> Measured:
    try:
        with copies(plan, backend, tables, commits) as (place, tiny):
            done = call("bench.drain:drain", place=place, tiny=tiny, backend=backend)
            chosen = backlog.names(tables)[:: max(tables // _CHECKED, 1)][:_CHECKED]
            call("bench.ours:check", place=place, backend=backend, names=chosen)
    except CaseFailedError as error:
        return Measured(0.0, 0, note=str(error), is_broken=True)
    return Measured(done["commits"] / done["seconds"], done["rss_mb"])
