"""The case `full-load`: one writer at full speed on one table with a worker beside it."""

import statistics
from typing import Any

from bench.child import CaseFailedError, call, call_together, serving
from bench.commits import fresh_place
from bench.contenders import CONTENDERS
from bench.results import Bar, Case, Measured, Plan, Row, median_of, ratio

WHO = ("deltasql-sqlite-worker", "deltasql-postgres-worker", "deltalake")


def full_load(plan: Plan) -> Case:
    """Measure our commits beside a worker, and deltalake's, in turn."""
    found: dict[str, list[tuple[Measured, dict[str, Any]]]] = {name: [] for name in WHO}
    for _ in range(plan.mirror_rounds):
        for name in WHO:
            if plan.has(name):
                found[name].append(_round(plan, name))
                measured, worked = found[name][-1]
                left = f", {worked['left']:,} left" if worked else ""
                plan.say(f"{name}: {measured.value:.0f}/s{left} {measured.note}")
    rates = {name: median_of([one for one, _ in found[name]]) for name in WHO}
    rows, bars = [], []
    for name in WHO:
        times = ratio(rates[name], rates["deltalake"])
        more = {"x deltalake": times} | _worker([worked for _, worked in found[name] if worked])
        rows.append(Row.of(CONTENDERS[name][0], [one for one, _ in found[name]], more))
        if name != "deltalake":
            text = f"full load, {CONTENDERS[name][0]}, against deltalake"
            bars.append(Bar.least(text, times, 20))
    how = (
        f"Median of {plan.mirror_rounds} rounds of {plan.commit_seconds:g} s, a fresh table each. "
        "One process commits one file after the other as fast as it can, as in the case of one "
        "writer; a worker mirrors to local files beside it, with checkpoints, on the same cores. "
        "What the worker had not mirrored when the writer ended is told, and how long it took from "
        "there until the log was complete. deltalake writes its log itself, without syncing it."
    )
    return Case("full-load", "A writer at full speed beside a worker", "1/s", rows, bars, how)


def _round(plan: Plan, name: str) -> tuple[Measured, dict[str, Any]]:
    worked: dict[str, Any] = {}
    try:
        with fresh_place(plan) as place:
            call("bench.commits:set_up", contender=name, place=place)
            arguments = {"contender": name, "place": place, "writer": 0}
            arguments["seconds"] = plan.commit_seconds
            if name == "deltalake":
                (wrote,) = call_together("bench.commits:write", [arguments])
            else:
                backend = name.split("-")[1]
                with serving("bench.ours:work", place=place, backend=backend) as end:
                    (wrote,) = call_together("bench.commits:write", [arguments])
                    worked = end()
                told = call("bench.ours:check", place=place, backend=backend, names=[])
                worked["mirrored"] = told["versions"]
    except CaseFailedError as error:
        return Measured(0.0, 0, note=str(error), is_broken=True), {}
    rate = wrote["commits"] / wrote["seconds"]
    return Measured(rate, wrote["rss_mb"], wrote["failed"], wrote["reason"]), worked


def _worker(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    if not rounds:
        return {}
    return {
        "left at the end": statistics.median([one["left"] for one in rounds]),
        "mirrored after, s": statistics.median([one["drain"] for one in rounds]),
        "checkpoints": statistics.median([one["checkpoints"] for one in rounds]),
        "worker's memory, MB": statistics.median([one["rss_mb"] for one in rounds]),
    }
