"""The case `verify`: how long comparing a whole log with SQL takes, beside merely reading it."""

import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import ours
from bench.child import CaseFailedError, call
from bench.drain import copies, ensure_backlog
from bench.results import Case, Measured, Plan, Row

Found = dict[str, list[dict[str, Any]]]


def compare(place: dict[str, Any], tiny: dict[str, Any], backend: str) -> dict[str, Any]:
    """In a child: verify a tiny log untimed, then the big one."""
    _compare(tiny, backend)
    loaded = set(sys.modules)
    seconds = _compare(place, backend)
    late = sorted(set(sys.modules) - loaded)
    if late:
        raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")
    return {"seconds": seconds}


def _compare(place: dict[str, Any], backend: str) -> float:
    with ours.connect(place, backend, "off") as catalog:
        started = time.perf_counter()
        found = catalog.mirror.verify("t0")
        seconds = time.perf_counter() - started
    if found:
        raise CaseFailedError(f"{len(found)} differences, the first: {found[0]}")
    return seconds


def read(place: dict[str, Any]) -> dict[str, Any]:
    """In a child: read all bytes of a log and look at none."""
    log = Path(place["dir"]) / "tables/t0/_delta_log"
    started = time.perf_counter()
    files = sorted(file for file in log.iterdir() if file.is_file())
    total = sum(len(file.read_bytes()) for file in files)
    return {"seconds": time.perf_counter() - started, "files": len(files), "mb": total / 1e6}


def verify(plan: Plan, commits: int) -> Case:
    """Measure SQLite and PostgreSQL in turn."""
    found: Found = {}
    with ExitStack() as stack:
        places = {}
        for backend in ours.BACKENDS:
            if plan.has(backend):
                ensure_backlog(plan, backend, 1, commits)
                place, tiny = stack.enter_context(copies(plan, backend, 1, commits))
                call("bench.drain:drain", place=place, tiny=tiny, backend=backend)
                places[backend] = {"place": place, "tiny": tiny, "backend": backend}
        for number in range(plan.warm_rounds + plan.mirror_rounds):
            for arguments in places.values():
                _round(plan, arguments, found if number >= plan.warm_rounds else {})
    rows = [_row(label, answers, commits) for label, answers in found.items()]
    how = (
        f"Median of {plan.mirror_rounds} rounds. One table with {commits:,} commits of one file, "
        "mirrored to local files with the checkpoints that were due. catalog.mirror.verify, which "
        "is `deltasql mirror verify`, on a connection that is open: every commit and checkpoint is "
        "read and its digest compared with SQL. Beside it a program that only reads the files."
    )
    return Case(f"verify-{commits}", f"Verify a log of {commits:,} commits", "s", rows, [], how)


def _round(plan: Plan, arguments: dict[str, Any], found: Found) -> None:
    backend = arguments["backend"]
    name = ours.BACKENDS[backend]
    checked = call("bench.verifying:compare", **arguments)
    plain = call("bench.verifying:read", place=arguments["place"])
    found.setdefault(f"deltasql, {name}, verify", []).append(checked | {"files": plain["files"]})
    found.setdefault(f"a plain read of the log of {name}", []).append(plain)
    plan.say(f"verify, {backend}: {checked['seconds']:.2f} s, a read {plain['seconds']:.2f} s")


def _row(label: str, answers: list[dict[str, Any]], commits: int) -> Row:
    measured = [Measured(one["seconds"], one["rss_mb"]) for one in answers]
    rate = commits / statistics.median([one["seconds"] for one in answers])
    more = {"commits/s": rate, "files": answers[0]["files"], "MB": answers[0].get("mb")}
    return Row.of(label, measured, more)
