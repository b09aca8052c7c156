"""The case `lag`: how long after its commit a version is in the log, under a steady load."""

from collections.abc import Iterator
from typing import Any

from bench import backlog, ours, steady
from bench.child import CaseFailedError, call, serving
from bench.commits import fresh_place
from bench.plot import curve_of
from bench.results import Bar, Case, Measured, Plan, Row, percentile

TABLES = 50
RATE = 100.0
MODES = {"worker": "one worker", "inline": "inline"}
Lags = list[float]


def set_up(place: dict[str, Any], backend: str, mode: str, tables: int) -> dict[str, Any]:
    """In a child: make the tables."""
    with ours.connect(place, backend, mode) as catalog:
        steady.make_tables(catalog, f"{place['dir']}/tables", tables)
    return {}


def write(
    place: dict[str, Any], backend: str, mode: str, load: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """In a child: commit to the tables in turn at a steady pace; tell when each commit was made.

    In the mode `inline` it also tells when each version was in the log.
    """
    sink = ours.MirroredSink()
    with ours.connect(place, backend, mode, sink=sink) as catalog:
        tables = [catalog.table(name) for name in backlog.names(load["tables"])]
        for number, table in enumerate(tables):  # the first commit of a table opens it
            table.commit([backlog.add(number, 0)])
        first = {table.name: table.version for table in tables}
        yield {}

        def commit(number: int) -> None:
            at = number % len(tables)
            tables[at].commit([backlog.add(at, 1 + number // len(tables))])

        took = steady.keep_pace(commit, load["commits"], load["rate"])
        made = steady.committed_at(tables)
    kept = {name: [one for one in made[name] if one[0] > first[name]] for name in made}
    yield {"took": took, "committed": kept, "mirrored": sink.mirrored}


def lag(plan: Plan) -> Case:
    """Measure a worker and the inline mirror on both databases in turn."""
    wanted = plan.pairs(tuple(MODES), tuple(ours.BACKENDS))
    found: dict[tuple[str, str], list[tuple[Measured, Lags]]] = {key: [] for key in wanted}
    for _ in range(plan.mirror_rounds):
        for backend, mode in wanted:
            found[backend, mode].append(_round(plan, backend, mode))
            measured = found[backend, mode][-1][0]
            plan.say(f"lag, {backend}, {mode}: median {measured.value:.3f} s {measured.note}")
    rows, bars, curves = [], [], []
    for (backend, mode), rounds in found.items():
        label = f"{ours.BACKENDS[backend]}, {MODES[mode]}"
        every = [one for _, lags in rounds for one in lags]
        shares = {f"p{share:g}": percentile(every, share / 100) for share in (50, 95, 99, 100)}
        more = {"p95, s": shares["p95"], "p99, s": shares["p99"], "longest, s": shares["p100"]}
        measured = [one for one, _ in rounds]
        rows.append(Row.of(label, measured, {"commits": f"{len(every):,}"} | more))
        curves.append(curve_of(label, every))
        if mode == "worker":
            bars.append(Bar.most(f"lag, {label}, 95 % of the commits", shares["p95"], 5, " s"))
            bars.append(Bar.most(f"lag, {label}, 99 % of the commits", shares["p99"], 60, " s"))
        else:
            bars.append(Bar.most(f"lag, {label}, median", shares["p50"], 0.1, " s"))
    return Case("lag", "From a commit to its log", "s", rows, bars, _how(plan), curves)


def _load(plan: Plan, mode: str) -> dict[str, Any]:
    tables = 5 if plan.is_quick else TABLES
    seconds = 3 if plan.is_quick else {"worker": 60, "inline": 20}[mode]
    rate = 20.0 if plan.is_quick else RATE
    return {"tables": tables, "rate": rate, "commits": int(rate * seconds)}


def _round(plan: Plan, backend: str, mode: str) -> tuple[Measured, Lags]:
    load = _load(plan, mode)
    try:
        with fresh_place(plan) as place:
            where = {"place": place, "backend": backend}
            call("bench.lag:set_up", **where, mode=mode, tables=load["tables"])
            if mode == "inline":
                done = call("bench.lag:write", **where, mode=mode, load=load)
                mirrored, rss = done["mirrored"], done["rss_mb"]
            else:
                with serving("bench.ours:work", **where) as end:
                    done = call("bench.lag:write", **where, mode=mode, load=load)
                    worked = end()
                mirrored, rss = worked["mirrored"], worked["rss_mb"]
            names = backlog.names(load["tables"])[:2]
            call("bench.ours:check", **where, names=names)
        found = steady.lags(done["committed"], mirrored)
    except CaseFailedError as error:
        return Measured(0.0, 0, note=str(error), is_broken=True), []
    every = [one for versions in found.values() for one in versions.values()]
    if len(every) != load["commits"]:
        note = f"{len(every)} of {load['commits']} commits were found"
        return Measured(0.0, 0, note=note, is_broken=True), []
    return Measured(percentile(every, 0.5) or 0.0, rss), every


def _how(plan: Plan) -> str:
    load = _load(plan, "worker")
    seconds, short = (_load(plan, mode)["commits"] / load["rate"] for mode in MODES)
    return (
        f"{plan.mirror_rounds} rounds of {seconds:g} s ({short:g} s inline): one process commits "
        f"to {load['tables']} tables in turn, {load['rate']:g} commits a second in all, on a fixed "
        "schedule; the worker is a process of its own with its default settings, and writes "
        "checkpoints meanwhile. A lag counts from the time that the commit carries to the moment "
        "when the version is in the log of local files and recorded so. Percentiles are those of "
        "the commits of all rounds; memory is that of whoever mirrors. Every log is complete at "
        "the end, and two of them are verified against SQL."
    )
