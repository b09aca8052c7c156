"""The case `staging`: the state of a whole table as a log that Delta Spark works on."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import ours, spark_session, synthetic
from bench.child import CaseFailedError, call
from bench.results import Bar, Case, Measured, Plan, Row, median_of
from bench.tables import ensure, place_of

_FULL = 1_000_000
_WARM = 2_000  # still a checkpoint
_FOLDER = "tx-bench"
Found = dict[str, list[dict[str, Any]]]


class _UndoneError(Exception):
    """Ends a transaction so that it leaves the kept table as it is."""


def measure(place: dict[str, Any], tiny: dict[str, Any], backend: str, n: int) -> dict[str, Any]:
    """In a child: stage a tiny table untimed, then the big one; no Spark is there."""
    _stage(tiny, backend)
    loaded = set(sys.modules)
    seconds, files = _stage(place, backend)
    late = sorted(set(sys.modules) - loaded)
    if late:
        raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")
    if files != n:
        raise CaseFailedError(f"the staged log has {files} files, not {n}")
    return {"seconds": seconds}


def _stage(place: dict[str, Any], backend: str) -> tuple[float, int]:
    from deltasql.log.checkpoint_writer import count_kind
    from deltasql.protocol.log_names import checkpoint_path
    from deltasql.spark.transactions.path_translation import StagedPlace
    from deltasql.spark.transactions.staged_log import write_staged_log

    root = Path(place["dir"]) / "table"
    with ours.connect(place, backend, "off") as catalog:
        ours.warm_arrow(catalog)
        started = time.perf_counter()
        log = write_staged_log(
            catalog.table("t").snapshot(), root, StagedPlace("t", f"file:{root}", _FOLDER)
        )
        seconds = time.perf_counter() - started
        checkpoint = Path(log.path) / checkpoint_path(0)
        files = count_kind(checkpoint, "add") if checkpoint.exists() else 0
        log.remove()
        return seconds, files


def statement(place: dict[str, Any], backend: str) -> dict[str, Any]:
    """In a child: stage inside of Spark, and delete one partition twice; nothing is committed."""
    import deltasql.spark

    uri = place["pg_uri"] if backend == "postgres" else place["sqlite_uri"]
    answer: dict[str, Any] = {}
    days = {"first": synthetic.ONE_DAY, "second": synthetic.DAYS[0]}
    spark = spark_session.start("deltasql", with_delta=True)
    spark.range(10).selectExpr("sum(id)").collect()
    with suppress(_UndoneError), deltasql.spark.transaction(spark, uri) as tx:
        answer["staging"] = _timed(lambda: tx.path("t"))
        for name, day in days.items():
            answer[name] = _timed(lambda d=day: tx.sql(f"DELETE FROM t WHERE date = '{d}'"))
        raise _UndoneError
    return answer


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def staging(plan: Plan, n: int) -> Case:
    """Measure SQLite and PostgreSQL in turn, and once more the first statements by Spark."""
    found: Found = {backend: [] for backend in ours.BACKENDS if plan.has(backend)}
    for backend in found:
        for size in (_WARM, n):
            ensure(plan, f"deltasql-{backend}", size)
    os.sync()  # what building left to be written would slow whoever comes first
    for number in range(plan.warm_rounds + plan.list_rounds):
        for backend, answers in found.items():
            answer = _measure(plan, backend, n)
            if number >= plan.warm_rounds:
                answers.append(answer)
    rows, bars = [], []
    for backend, answers in found.items():
        measured = [Measured(one["seconds"], one["rss_mb"]) for one in answers]
        spark = call("bench.staging:statement", **_of(plan, backend, n))
        more = {
            "inside Spark, s": spark["staging"],
            "first DELETE of 0.1 %, s": spark["first"],
            "second, s": spark["second"],
        }
        plan.say(f"staging by {backend} in Spark: {more}")
        label = f"deltasql, {ours.BACKENDS[backend]}"
        rows.append(Row.of(label, measured, more))
        if n >= _FULL:
            memory = max(one.rss_mb for one in measured)
            bars.append(Bar.most(f"staging, {label}", median_of(measured), 5, " s"))
            bars.append(Bar.most(f"staging, {label}, peak memory", memory, 500, " MB"))
    how = (
        f"Median of {plan.list_rounds} rounds. From an open connection to the log that Delta Spark "
        "opens: all live files with their statistics, by absolute path, as a checkpoint. Beside it "
        "one transaction in a fresh session of Spark: the same staging, then two statements that "
        "each delete one of 1,000 partitions; the first one lets Delta Spark open the log."
    )
    return Case(f"staging-{n}", f"Stage a table for Spark, {n:,} files", "s", rows, bars, how)


def _measure(plan: Plan, backend: str, n: int) -> dict[str, Any]:
    tiny = place_of(plan, f"deltasql-{backend}", _WARM)
    answer = call("bench.staging:measure", **_of(plan, backend, n), tiny=tiny, n=n)
    plan.say(f"staging of {n:,} files, {backend}: {answer['seconds']:.2f} s")
    return answer


def _of(plan: Plan, backend: str, n: int) -> dict[str, Any]:
    return {"place": place_of(plan, f"deltasql-{backend}", n), "backend": backend}
