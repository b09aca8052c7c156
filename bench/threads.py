"""Case `threads`: commits of one add by many threads of one process, or by as many processes."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import ours, synthetic
from bench.child import CaseFailedError, call, call_together
from bench.commits import fresh_place
from bench.results import Bar, Case, Measured, Plan, Row, median_of, percentile, ratio

MANY = 16
_FILES = 1_000
_EACH_WRITER = 10_000_000


def set_up(place: dict[str, Any], backend: str) -> dict[str, Any]:
    """In a child: make the empty table."""
    with ours.connect(place, backend, "off") as catalog:
        location = f"{place['dir']}/table"
        catalog.create_table("t", location=location, schema=synthetic.SCHEMA, partition_by=["date"])
    return {}


def write(
    place: dict[str, Any], backend: str, threads: int, writer: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """In a child: commit by so many threads for so long, and tell how long each commit took."""
    with ours.connect(place, backend, "off") as catalog:
        table = catalog.table("t")
        waits: list[float] = []
        failed: list[str] = []

        def commit(number: int, until: float) -> None:
            mine, i = [], number * _EACH_WRITER
            while (begun := time.perf_counter()) < until:
                i += 1
                try:
                    table.commit([synthetic.add(i, _FILES)])
                    mine.append(time.perf_counter() - begun)
                except Exception as error:  # noqa: BLE001 (it is counted)
                    failed.append(f"{type(error).__name__}: {error}"[:200])
            waits.extend(mine)

        def all_threads(first: int, duration: float) -> float:
            begun = time.perf_counter()
            until = begun + duration
            running = [
                threading.Thread(target=commit, args=(first + n, until)) for n in range(threads)
            ]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            return time.perf_counter() - begun

        first = 1 + writer * 2 * threads
        all_threads(first, 0.3)
        waits.clear()
        yield {}
        cpu, server = time.process_time(), server_cpu(place, backend)
        took = all_threads(first + threads, seconds)
        cpu, server = time.process_time() - cpu, server_cpu(place, backend) - server
        version = table.snapshot().version
    yield {
        "seconds": took,
        "waits": waits,
        "failed": len(failed),
        "reason": failed[0] if failed else "",
        "cpu": cpu,
        "server_cpu": server,
        "version": version,
    }


def server_cpu(place: dict[str, Any], backend: str) -> float:
    """Return the processor seconds that PostgreSQL has used since it started."""
    if backend != "postgres":
        return 0.0
    server = int(place["pg_pid"])
    total = sum(_times(server)[:4])
    for task in Path(f"/proc/{server}/task").iterdir():
        for child in (task / "children").read_text(encoding="utf-8").split():
            total += sum(_times(int(child))[:2])
    return total / 100


def _times(pid: int) -> list[int]:
    """Return a process's own and its ended children's user and system time, in ticks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:  # it has just ended, and counts as its parent's
        return [0, 0, 0, 0]
    return [int(word) for word in text[text.rindex(")") + 2 :].split()[11:15]]


def _round(plan: Plan, backend: str, threads: int, processes: int) -> dict[str, Any]:
    with fresh_place(plan) as place:
        call("bench.threads:set_up", place=place, backend=backend)
        shared = {"place": place, "backend": backend, "threads": threads}
        each = [
            {**shared, "writer": number, "seconds": plan.writers_seconds}
            for number in range(processes)
        ]
        found = call_together("bench.threads:write", each)
    waits = [wait for one in found for wait in one["waits"]]
    if not waits:
        raise CaseFailedError("nothing was committed")
    return {
        "rate": sum(len(one["waits"]) / one["seconds"] for one in found),
        "p99": percentile(waits, 0.99),
        "failed": sum(one["failed"] for one in found),
        "reason": next((one["reason"] for one in found if one["reason"]), ""),
        "rss_mb": max(one["rss_mb"] for one in found),
        # of several processes each would count the server's as a whole
        "cpu": sum(one["cpu"] for one in found) / len(waits),
        "server": found[0]["server_cpu"] / len(waits) if processes == 1 else None,
    }


_SHAPES = ((1, 1), (MANY, 1), (1, MANY))


def threads(plan: Plan) -> Case:
    """Measure one writer, 16 threads and 16 processes, in turn."""
    wanted = [(b, shape) for b in ours.BACKENDS if plan.has(b) for shape in _SHAPES]
    found: dict[tuple[str, tuple[int, int]], list[dict[str, Any]]] = {key: [] for key in wanted}
    for _ in range(plan.rounds):
        for backend, shape in wanted:
            one = _round(plan, backend, *shape)
            found[backend, shape].append(one)
            plan.say(
                f"{_label(backend, shape)}: {one['rate']:.0f}/s, p99 {one['p99'] * 1e3:.1f} ms"
            )
    rows, bars = [], []
    for (backend, shape), rounds in found.items():
        measured = [
            Measured(one["rate"], one["rss_mb"], one["failed"], one["reason"]) for one in rounds
        ]
        alone = [Measured(one["rate"], 0) for one in found[backend, (1, 1)]]
        p99 = median_of([Measured(one["p99"] * 1e3, 0) for one in rounds])
        lost = sum(one["failed"] for one in rounds)
        more = {
            "p99, ms": p99,
            "x one writer": ratio(median_of(measured), median_of(alone)),
            "CPU a commit, ms": _middle_ms(rounds, "cpu"),
            "server's, ms": _middle_ms(rounds, "server"),
            "failed commits": str(lost),
        }
        rows.append(Row.of(_label(backend, shape), measured, more))
        if shape == (MANY, 1):
            bars.append(Bar.most(f"{_label(backend, shape)}, p99", p99, 40, " ms"))
        bars.append(Bar.most(f"{_label(backend, shape)}, failed commits", float(lost), 0))
    how = (
        f"{plan.rounds} rounds of {plan.writers_seconds:g} s, a fresh table per round, mirror off. "
        "One add with statistics of 5 columns per commit, durable. Threads share one table object; "
        "their commits that meet are one transaction. The median of the rounds' 99th percentiles."
    )
    return Case("threads", "Sixteen writers on one table", "1/s", rows, bars, how)


def _middle_ms(rounds: list[dict[str, Any]], name: str) -> float | None:
    values = [Measured(one[name] * 1e3, 0) for one in rounds if one[name] is not None]
    return median_of(values)


def _label(backend: str, shape: tuple[int, int]) -> str:
    threads, processes = shape
    if threads > 1:
        words = f"{threads} threads"
    else:
        words = "1 writer" if processes == 1 else f"{processes} processes"
    return f"deltasql, {ours.BACKENDS[backend]}, {words}"
