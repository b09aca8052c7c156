"""Cases 3 and 4: rounds over the contenders, checked answers, bars."""

import os
import statistics
from typing import Any

from bench.child import CaseFailedError, call
from bench.opens import TINY
from bench.results import Bar, Case, Measured, Plan, Row
from bench.tables import KINDS, ensure, place_of

LABELS = {
    "deltasql-sqlite": "deltasql, SQLite",
    "deltasql-postgres": "deltasql, PostgreSQL",
    "deltalake": "deltalake (delta-rs), checkpoint",
    "ducklake-sqlite": "DuckLake, SQLite",
    "ducklake-postgres": "DuckLake, PostgreSQL",
    "pyiceberg": "pyiceberg, SQLite",
}
_SMALL = 100_000
Found = dict[str, list[dict[str, Any]]]


def _rounds(plan: Plan, kinds: tuple[str, ...], n: int, what: str) -> tuple[Found, dict[str, str]]:
    found: Found = {kind: [] for kind in kinds}
    failed: dict[str, str] = {}
    for kind in kinds:
        if not plan.has(kind):
            failed[kind] = "PostgreSQL cannot be had"
            continue
        try:
            ensure(plan, kind, TINY)
            ensure(plan, kind, n)
        except CaseFailedError as error:
            failed[kind] = str(error)
    os.sync()  # what building left to be written would slow whoever comes first
    for number in range(plan.list_rounds + 1):  # the first one warms the page cache
        for kind in kinds:
            if kind in failed:
                continue
            try:
                answer = _ask(plan, kind, n, what)
            except CaseFailedError as error:
                failed[kind] = str(error)
                found[kind].clear()
                continue
            if number:
                found[kind].append(answer)
                plan.say(f"{kind}, {n:,} files, {what}: {answer['seconds'] * 1e3:,.1f} ms")
    return found, failed


def _ask(plan: Plan, kind: str, n: int, what: str) -> dict[str, Any]:
    place, tiny = place_of(plan, kind, n), place_of(plan, kind, TINY)
    answer = call("bench.opens:measure", kind=kind, place=place, tiny=tiny, n=n, what=what)
    wanted = n if what == "list" else n // 1_000
    if answer["files"] not in {wanted, -1}:
        raise CaseFailedError(f"wrong answer: {answer['files']} files, not {wanted}")
    return answer


def _median(answers: list[dict[str, Any]], key: str = "seconds") -> float | None:
    return statistics.median([one[key] for one in answers]) if answers else None


def _rows(
    found: Found, failed: dict[str, str], held: bool
) -> tuple[list[Row], dict[str, float | None]]:
    base = _median(found["deltalake"])
    rows, ratios = [], {}
    for kind, answers in found.items():
        seconds = _median(answers)
        ratios[kind] = base / seconds if base and seconds else None
        cold = _median(answers, "cold")
        first = _median(found["deltalake"], "cold")
        more: dict[str, Any] = {
            "x deltalake": ratios[kind],
            "with connecting, s": cold,
            "that, x deltalake": first / cold if first and cold else None,
        }
        if held:
            again = _median(answers, "held") if answers and "held" in answers[0] else None
            first = _median(found["deltalake"], "held") if found["deltalake"] else None
            more["held open, s"] = again
            more["held, x deltalake"] = first / again if first and again else None
        measured = [Measured(one["seconds"], one["rss_mb"]) for one in answers]
        row = Row.of(LABELS[kind], measured, more)
        rows.append(row if answers else Row(row.label, None, None, None, None, more, failed[kind]))
    rows.sort(key=lambda row: (row.value is None, row.value))
    return rows, ratios


def listing(plan: Plan, n: int) -> Case:
    """Case 3."""
    kinds = KINDS + (("pyiceberg",) if n <= _SMALL else ())
    found, failed = _rounds(plan, kinds, n, "list")
    rows, ratios = _rows(found, failed, held=False)
    limit = 3.0 if n <= _SMALL else 3.5
    bars = [
        Bar.least(f"{LABELS[kind]}, {n:,} files, against deltalake", ratios[kind], limit)
        for kind in ("deltasql-sqlite", "deltasql-postgres")
    ]
    how = (
        f"Median of {plan.list_rounds} rounds. From a connection to the database to the whole file "
        "list, the table opened anew; beside it with connecting (DuckLake: attaching) in a process "
        "that has nothing open. deltasql's default columns as Arrow, deltalake's get_add_actions "
        "as Arrow, DuckLake's ducklake_list_files, pyiceberg's plan_files."
    )
    title = f"Open a table and list its files, {n:,} files"
    return Case(f"list-{n}", title, "s", rows, bars, how)


def pruning(plan: Plan, n: int, what: str) -> Case:
    """Case 4: `what` is partition or range."""
    found, failed = _rounds(plan, KINDS, n, what)
    rows, ratios = _rows(found, failed, held=True)
    limit = 100.0 if what == "partition" else 20.0
    kinds = ("deltasql-sqlite", "deltasql-postgres")
    bars = [
        Bar.least(f"{LABELS[kind]}, {what}, against deltalake", ratios[kind], limit)
        for kind in kinds
        if n > _SMALL  # the bars are those of a million files
    ]
    text = {
        "partition": "one of 1,000 partitions",
        "range": "a range of one column that 0.1 % of the files hold",
    }[what]
    how = (
        f"Median of {plan.list_rounds} rounds, the table opened anew on a connection that is "
        "there; beside it with connecting, and the same question on a table that is held open "
        "(deltalake then answers from the version it has in memory, the others look for the "
        "newest). deltalake answers a partition by file_uris, a range by its list of adds filtered "
        "in Arrow (it has no call for that); DuckLake is timed until its scan opens the first file."
    )
    return Case(f"{what}-{n}", f"Plan {text}, {n:,} files", "s", rows, bars, how)
