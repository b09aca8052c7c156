"""The cases `spark-*`: deltasql on Spark beside stock Delta Spark, on the very same tables."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bench import spark_tables
from bench.child import CaseFailedError, call
from bench.commits import fresh_place
from bench.results import Bar, Case, Measured, Plan, Row, ratio

LABELS = {
    "delta": "Delta Spark",
    "deltasql": "deltasql.spark",
    "source": 'format("deltasql")',
}
_TINY = 20_000
_SECONDS = 1800
Answers = list[dict[str, Any]]
Ask = Callable[[str], dict[str, Any]]


def scan(plan: Plan, rows: int) -> Case:
    """From nothing to the first result, and warm scans."""
    place = spark_tables.rows_table(plan, rows)
    found, failed = _rounds(
        plan,
        tuple(LABELS),
        lambda one: call(
            "bench.spark_runs:scan", timeout=_SECONDS, contender=one, place=place, rows=rows
        ),
    )
    warm = {
        one: {
            name: _median([each["warm"][name] for each in answers])
            for name in (answers[0]["warm"] if answers else ())
        }
        for one, answers in found.items()
    }
    more = {
        one: {
            "of it the session, s": _middle(answers, "session"),
            **{f"warm: {name}, s": seconds for name, seconds in warm[one].items()},
        }
        for one, answers in found.items()
    }
    loads = [
        _median([each["seconds"] - each["session"] for each in found[one]])
        for one in ("delta", "deltasql")
    ]
    bars = [
        _faster("fresh session to first result", found, 1.8),
        Bar.least("the same without its start, against Delta Spark", ratio(*loads), 1.8),
    ] + [
        Bar.most(
            f"warm scan, {name}, Delta's time",
            ratio(seconds, warm["delta"].get(name)),
            1.1,
            "x",
        )
        for name, seconds in warm["deltasql"].items()
    ]
    how = (
        f"{rows:,} rows of 6 columns in 20 files, median of {plan.spark_rounds} interleaved "
        "rounds, each a process of its own. The first figure is from the call that starts the "
        "session to the first result, a sum of one column and a count of another. Warm scans are "
        'medians of 3 in the same session, those of format("deltasql") one each.'
    )
    title = f"Spark: a fresh session and scans, {rows:,} rows"
    return Case(f"spark-scan-{rows}", title, "s", _rows(found, failed, more), bars, how)


def selective(plan: Plan, files: int) -> Case:
    """The first read of a table with very many files, of which 20 are needed."""
    place = spark_tables.files_table(plan, files)
    tiny = spark_tables.files_table(plan, _TINY)
    both = {"place": place, "tiny": tiny, "files": files, "few": _TINY}
    found, failed = _rounds(
        plan,
        tuple(LABELS),
        lambda one: call("bench.spark_runs:selective", timeout=_SECONDS, contender=one, **both),
    )
    more = {
        one: {
            "again, s": _middle(answers, "again"),
            "before it, MB": _middle(answers, "before_mb"),
        }
        for one, answers in found.items()
    }
    memory = ratio(_middle(found["delta"], "jvm_mb"), _middle(found["deltasql"], "jvm_mb"))
    name = f"first read of {files:,} files"
    bars = [
        _faster(f"{name}, warm session", found, 15 if files >= 1_000_000 else 4),
        Bar.least(f"{name}, Delta's memory against ours", memory, 3),
    ]
    how = (
        f"Median of {plan.spark_rounds} interleaved rounds, each a process of its own whose "
        "session has read another table of the same kind three times. One partition and a range of "
        "ids, 20 files. Memory is the peak of the driver's JVM, at the end and before the read."
    )
    title = f"Spark: a selective read, {files:,} files"
    return Case(f"spark-files-{files}", title, "s", _rows(found, failed, more), bars, how)


def appends(plan: Plan, rows: int) -> Case:
    """Appends of many rows and of few."""
    found, failed = _rounds(plan, tuple(LABELS), lambda one: _append(plan, one, rows))
    more = {one: {"100 rows, s": _middle(answers, "small")} for one, answers in found.items()}
    small = ratio(_middle(found["delta"], "small"), _middle(found["deltasql"], "small"))
    big = ratio(_middle(found["deltasql"], "seconds"), _middle(found["delta"], "seconds"))
    bars = [
        Bar.most(f"append of {rows:,} rows, Delta's time", big, 1.1, "x"),
        Bar.least("append of 100 rows, against Delta Spark", small, 2.5),
    ]
    how = (
        f"Median of {plan.spark_rounds} interleaved rounds, each a process of its own: medians of "
        f"4 appends of {rows:,} rows and of 20 of 100 rows, in a warm session; deltasql on SQLite, "
        "mirrored inline."
    )
    title = f"Spark: appends of {rows:,} rows and of 100"
    return Case(f"spark-append-{rows}", title, "s", _rows(found, failed, more), bars, how)


def merge(plan: Plan, rows: int) -> Case:
    """A merge of a thousand rows."""
    place = spark_tables.rows_table(plan, rows)
    found, failed = _rounds(plan, ("delta", "deltasql"), lambda one: _merge(plan, one, place, rows))
    more = {
        one: {
            "of it staging, s": _middle(answers, "staging"),
            "the first, s": _middle(answers, "first"),
        }
        for one, answers in found.items()
    }
    merged = _median([each["seconds"] - each["staging"] for each in found["deltasql"]])
    times = ratio(merged, _middle(found["delta"], "seconds"))
    bars = [Bar.most("merge without its staging, Delta's time", times, 1.1, "x")]
    how = (
        f"1,000 rows, of which 900 are known, merged into {rows:,} rows in 20 files, three times; "
        f"the third is compared. Median of {plan.spark_rounds} interleaved rounds, each a process "
        "of its own with a copy of the table."
    )
    title = f"Spark: MERGE into {rows:,} rows"
    return Case(f"spark-merge-{rows}", title, "s", _rows(found, failed, more), bars, how)


def _append(plan: Plan, contender: str, rows: int) -> dict[str, Any]:
    with fresh_place(plan) as place:
        return call(
            "bench.spark_runs:appends",
            timeout=_SECONDS,
            contender=contender,
            place=place,
            rows=rows,
        )


def _merge(plan: Plan, contender: str, source: dict[str, Any], rows: int) -> dict[str, Any]:
    with fresh_place(plan) as place:
        both = {"source": source, "place": place}
        return call(
            "bench.spark_runs:merge", timeout=_SECONDS, contender=contender, rows=rows, **both
        )


def _rounds(
    plan: Plan, contenders: Sequence[str], ask: Ask
) -> tuple[dict[str, Answers], dict[str, str]]:
    found: dict[str, Answers] = {one: [] for one in contenders}
    failed: dict[str, str] = {}
    for number in range(plan.warm_rounds + plan.spark_rounds):
        for one in contenders:
            if one in failed:
                continue
            try:
                answer = ask(one)
            except CaseFailedError as error:
                failed[one] = str(error)
                found[one].clear()
                continue
            plan.say(f"{LABELS[one]}: {answer['seconds']:.2f} s, {answer['jvm_mb']} MB")
            if number >= plan.warm_rounds:
                found[one].append(answer)
    return found, failed


def _rows(
    found: dict[str, Answers], failed: dict[str, str], more: dict[str, dict[str, Any]]
) -> list[Row]:
    base = _middle(found["delta"], "seconds")
    rows = []
    for one, answers in found.items():
        told = {"x Delta Spark": ratio(base, _middle(answers, "seconds")), **more[one]}
        measured = [Measured(each["seconds"], each["jvm_mb"]) for each in answers]
        if one in failed:
            measured = [Measured(0.0, 0, note=failed[one], is_broken=True)]
        rows.append(Row.of(LABELS[one], measured, told))
    return rows


def _faster(text: str, found: dict[str, Answers], limit: float) -> Bar:
    base, mine = (_middle(found[one], "seconds") for one in ("delta", "deltasql"))
    return Bar.least(f"{text}, against Delta Spark", ratio(base, mine), limit)


def _middle(answers: Answers, key: str) -> float | None:
    return _median([one[key] for one in answers])


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
