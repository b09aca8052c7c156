"""Cases 1 and 2: durable commits per second to one table, by one writer and by eight."""

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.child import CaseFailedError, call, call_together
from bench.contenders import CONTENDERS
from bench.results import Bar, Case, Measured, Plan, Row, median_of, ratio

ONE = (
    "deltasql-sqlite",
    "deltalake",
    "ducklake-sqlite",
    "deltasql-sqlite-inline",
    "pyiceberg",
    "deltasql-postgres",
    "ducklake-postgres",
    "deltasql-postgres-inline",
)
MANY = ("deltasql-sqlite", "deltasql-postgres", "deltalake")
WRITERS = 8


def set_up(contender: str, place: dict[str, Any]) -> dict[str, Any]:
    """In a child: make the empty table."""
    CONTENDERS[contender][1].setup(place)
    return {}


def write(
    contender: str, place: dict[str, Any], writer: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """In a child: commit for so many seconds; a commit that fails is counted and left."""
    commit = CONTENDERS[contender][1].open(place, writer)
    commit(0)
    yield {}
    done, failed, reasons = 0, 0, ""
    started = time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        try:
            commit(done + failed + 1)
            done += 1
        except Exception as error:  # noqa: BLE001 (what a peer raises is what we count)
            failed += 1
            reasons = f"{type(error).__name__}: {error}"[:200]
    now = time.perf_counter()
    yield {"commits": done, "failed": failed, "seconds": now - started, "reason": reasons}


@contextmanager
def fresh_place(plan: Plan) -> Iterator[dict[str, Any]]:
    """Give an empty folder and an empty database for as long as the block lasts."""
    token = uuid.uuid4().hex[:12]
    folder = plan.home / "commits" / token
    folder.mkdir(parents=True)
    place = plan.place(folder, f"c_{token}")
    plan.make_database(place["name"])
    try:
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        plan.drop_database(place["name"])


def _round(plan: Plan, contender: str, writers: int, seconds: float) -> Measured:
    """Make a fresh table and let the writers loose on it."""
    with fresh_place(plan) as place:
        call("bench.commits:set_up", contender=contender, place=place)
        each = [
            {"contender": contender, "place": place, "writer": w, "seconds": seconds}
            for w in range(writers)
        ]
        found = call_together("bench.commits:write", each)
    return Measured(
        value=sum(one["commits"] / one["seconds"] for one in found),
        rss_mb=max(one["rss_mb"] for one in found),
        failed=sum(one["failed"] for one in found),
        note=next((one["reason"] for one in found if one["reason"]), ""),
    )


def _rounds(
    plan: Plan, wanted: list[tuple[str, int]], seconds: float
) -> dict[tuple[str, int], list[Measured]]:
    found: dict[tuple[str, int], list[Measured]] = {key: [] for key in wanted}
    for _ in range(plan.rounds):
        for contender, writers in wanted:
            if not plan.has(contender):
                continue
            try:
                measured = _round(plan, contender, writers, seconds)
            except CaseFailedError as error:
                measured = Measured(0.0, 0, note=str(error), is_broken=True)
            found[contender, writers].append(measured)
            plan.say(f"{contender}, {writers} writer(s): {measured.value:.0f}/s {measured.note}")
    return found


def one_writer(plan: Plan) -> Case:
    """Case 1."""
    found = _rounds(plan, [(name, 1) for name in ONE], plan.commit_seconds)
    rates = {name: median_of(found[name, 1]) for name in ONE}
    base = rates["deltalake"]
    rows = [
        Row.of(CONTENDERS[name][0], found[name, 1], {"x deltalake": ratio(rates[name], base)})
        for name in sorted(ONE, key=lambda name: -(rates[name] or 0.0))
    ]
    bars = []
    for backend in ("sqlite", "postgres"):
        ours, mirrored = rates[f"deltasql-{backend}"], rates[f"deltasql-{backend}-inline"]
        lake = rates[f"ducklake-{backend}"]
        name = {"sqlite": "SQLite", "postgres": "PostgreSQL"}[backend]
        bars += [
            Bar.least(f"SQL commit, {name}, against deltalake", ratio(ours, base), 20),
            Bar.least(f"SQL commit, {name}, against DuckLake on {name}", ratio(ours, lake), 5),
            Bar.least(f"mirrored inline, {name}, against deltalake", ratio(mirrored, base), 8),
        ]
    how = (
        f"{plan.rounds} rounds of {plan.commit_seconds:g} s each, a fresh table per round. One add "
        "with statistics of 5 columns per commit, every column indexed by deltasql. deltalake "
        "does not sync its log files to disk; deltasql, SQLite and PostgreSQL do."
    )
    return Case(
        "commits", "Durable commits per second, one table, one writer", "1/s", rows, bars, how
    )


def eight_writers(plan: Plan) -> Case:
    """Case 2."""
    wanted = [(name, writers) for name in MANY for writers in (1, WRITERS)]
    found = _rounds(plan, wanted, plan.writers_seconds)
    rows, bars = [], []
    for name in MANY:
        alone, many = median_of(found[name, 1]), median_of(found[name, WRITERS])
        for writers in (1, WRITERS):
            label = f"{CONTENDERS[name][0]}, {writers} writer{'s' * (writers > 1)}"
            failed = sum(one.failed for one in found[name, writers])
            more = {"failed commits": str(failed), "x one writer": ratio(many, alone)}
            rows.append(Row.of(label, found[name, writers], more))
        if name == "deltalake":
            continue
        lost = sum(one.failed for one in found[name, WRITERS])
        title = CONTENDERS[name][0]
        bars.append(Bar.least(f"{title}: 8 writers against one", ratio(many, alone), 0.8))
        bars.append(Bar.most(f"{title}: failed commits of 8 writers", float(lost), 0))
    how = (
        f"{plan.rounds} rounds of {plan.writers_seconds:g} s; eight processes start together on "
        "one table and their rates are summed. A call that raises is counted as failed and not "
        "repeated by the benchmark."
    )
    return Case("writers", "Eight writers on one table", "1/s", rows, bars, how)
