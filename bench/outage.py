"""The case `outage`: a store is down for a while; what commits, other tables and recovery feel."""

import itertools
from collections.abc import Iterator
from typing import Any

from bench import backlog, ours, steady
from bench.child import CaseFailedError, call, serving
from bench.commits import fresh_place
from bench.results import Bar, Case, Measured, Plan, Row, percentile
from bench.switch import SCHEME, switch

TABLES = 20
RATE = 100.0
BUCKET, HEALTHY = "outage", "healthy"
_OTHER = "other"
_EVERY = 21  # one commit in so many goes to the table in the healthy store
MODES = {"worker": "mirrored by the worker", "inline": "mirrored inline"}


def write(
    place: dict[str, Any], backend: str, mode: str, load: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """In a child: commit at a steady pace before and during an outage, then wait for the logs."""
    folder = place["dir"]
    sink = ours.MirroredSink()
    stores = ours.wrapped({"folder": folder})
    with ours.connect(place, backend, mode, sink=sink, **stores) as catalog:
        other = backlog.create(catalog, f"{SCHEME}{HEALTHY}/{_OTHER}", _OTHER)
        tables = steady.make_tables(catalog, f"{SCHEME}{BUCKET}", load["tables"])
        for number, table in enumerate([*tables, other]):
            table.commit([backlog.add(number, 0)])
        ours.wait_mirrored(catalog)
        yield {}
        files = itertools.count(1)

        def commit(number: int) -> None:
            at = number % len(tables)
            chosen = other if _is_other(number) else tables[at]
            chosen.commit([backlog.add(at, next(files))])

        before = steady.keep_pace(commit, load["before"], load["rate"])
        border = other.version
        switch(folder, BUCKET, is_down=True)
        during = steady.keep_pace(commit, load["during"], load["rate"])
        left = ours.behind(catalog)
        switch(folder, BUCKET, is_down=False)
        seconds = ours.wait_mirrored(catalog)
        committed = steady.committed_at([other])
    answer = {"before": _struck(before), "during": _struck(during), "left": left}
    answer |= {"border": border, "committed": committed, "mirrored": sink.mirrored}
    yield answer | {"seconds": seconds}


def _is_other(number: int) -> bool:
    return number % _EVERY == _EVERY - 1


def _struck(took: list[float]) -> list[float]:
    """Return the times of the commits to the store that is struck."""
    return [seconds for number, seconds in enumerate(took) if not _is_other(number)]


def outage(plan: Plan) -> Case:
    """Measure both databases and both modes in turn."""
    wanted = plan.pairs(tuple(MODES), tuple(ours.BACKENDS))
    found: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in wanted}
    failed: dict[tuple[str, str], str] = {}
    for _ in range(plan.mirror_rounds):
        for key in wanted:
            try:
                found[key].append(_round(plan, *key))
            except CaseFailedError as error:
                failed[key] = str(error)
                plan.say(f"outage, {', '.join(key)}: {error}")
    rows, bars = [], []
    for backend, mode in wanted:
        label = f"{ours.BACKENDS[backend]}, {MODES[mode]}"
        rounds = found[backend, mode] if (backend, mode) not in failed else []
        row, ours_bars = _judge(label, rounds, failed.get((backend, mode), ""))
        rows.append(row)
        bars += ours_bars
    return Case("outage", "A store is down, and comes back", "s", rows, bars, _how(plan))


def _judge(label: str, rounds: list[dict[str, Any]], note: str) -> tuple[Row, list[Bar]]:
    """Put the rounds of one contender into a row, and hold it against what was promised."""

    def over(key: str, share: float, scale: float = 1.0) -> float | None:
        found = percentile([value for one in rounds for value in one[key]], share)
        return None if found is None else found * scale

    more: dict[str, Any] = {
        "left when it came back": max((r["left"] for r in rounds), default=None)
    }
    for key, text in (("before", "before"), ("during", "during")):
        for share in (50, 99):
            more[f"commit p{share} {text}, ms"] = over(key, share / 100, 1000)
    for key in ("lag before", "lag during"):
        more[f"other store, p95 {key}, s"] = over(key, 0.95)
    measured = [Measured(one["seconds"], one["rss_mb"]) for one in rounds]
    row = Row.of(label, measured, more)
    longest = max((one["seconds"] for one in rounds), default=None)
    bars = [
        Bar.most(f"outage, {label}, all mirrored after it", longest, 60, " s"),
        Bar.most(f"outage, {label}, other store, p95 of lag", over("lag during", 0.95), 5, " s"),
    ]
    return (row if rounds else Row(label, None, None, None, None, more, note)), bars


def _load(plan: Plan) -> dict[str, Any]:
    if plan.is_quick:
        return {"tables": 4, "rate": 40.0, "before": 42, "during": 126}
    return {"tables": TABLES, "rate": RATE, "before": 1_050, "during": 2_100}


def _round(plan: Plan, backend: str, mode: str) -> dict[str, Any]:
    with fresh_place(plan) as place:
        call("bench.outage:set_up", place=place, backend=backend)
        where = {"place": place, "backend": backend}
        stores = {"folder": place["dir"]}
        with serving("bench.ours:work", **where, stores=stores) as end:
            done = call("bench.outage:write", **where, mode=mode, load=_load(plan))
            worked = end()
    mirrored = worked["mirrored"] + done["mirrored"]
    versions = steady.lags(done["committed"], mirrored)[_OTHER]
    for key, is_in in (("lag before", False), ("lag during", True)):
        done[key] = [s for v, s in versions.items() if (v > done["border"]) is is_in]
    told = f"{done['left']} left, mirrored {done['seconds']:.1f} s after it"
    plan.say(f"outage, {backend}, {mode}: {told}")
    return done | {"rss_mb": worked["rss_mb"]}


def set_up(place: dict[str, Any], backend: str) -> dict[str, Any]:
    """In a child: make the catalog, so that the worker finds one."""
    with ours.connect(place, backend, "off"):
        return {}


def _how(plan: Plan) -> str:
    load = _load(plan)
    return (
        f"{plan.mirror_rounds} rounds: {load['rate']:g} commits a second over {load['tables']} "
        f"tables in one store, {load['before']:,} while it answers and {load['during']:,} while it "
        "refuses every call, with a worker beside; then none. The figure is the time from "
        "the store's return until every log is complete; a worker probes a store that is down "
        "every 10 s. The objects of the stores are local files behind a switch. One commit in "
        f"{_EVERY} goes to a table in another store, whose lag is told. Percentiles are "
        "those of all rounds; memory is the worker's."
    )
