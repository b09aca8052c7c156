"""The case `checkpoint`: a checkpoint of a whole table, its time, its memory and its bytes."""

import hashlib
import itertools
import os
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from bench import bulk, ours, synthetic
from bench.child import CaseFailedError, call
from bench.commits import fresh_place
from bench.opens import TINY
from bench.results import Bar, Case, Measured, Plan, Row, median_of, ratio
from bench.tables import ensure, place_of
from deltasql.testing import inspect

KINDS = ("deltasql-sqlite", "deltasql-postgres", "deltalake")
WIDE = "bulk-sqlite"
LABELS = {
    "deltasql-sqlite": "deltasql, SQLite",
    "deltasql-postgres": "deltasql, PostgreSQL",
    "deltalake": "deltalake (delta-rs)",
    WIDE: "deltasql, SQLite",
}
_TWIN_FILES = 10_000
_TWIN_ADDS = 2_500
_FULL = 1_000_000
_HEAD_ROWS = 10  # protocol, metadata and the like, at most
Found = dict[str, list[dict[str, Any]]]


def measure(kind: str, place: dict[str, Any], tiny: dict[str, Any], n: int) -> dict[str, Any]:
    """In a child: write the checkpoint of a tiny table untimed, then that of the big one."""
    name, _, backend = kind.partition("-")
    write = _deltalake if name == "deltalake" else _deltasql
    write(tiny, backend)
    loaded = set(sys.modules)
    seconds, file = write(place, backend)
    late = sorted(set(sys.modules) - loaded)
    if late:
        raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")
    rows = _rows(file)
    if not n < rows <= n + _HEAD_ROWS:
        raise CaseFailedError(f"the checkpoint has {rows} rows for {n} files")
    answer = {"seconds": seconds, "digest": _digest(file), "mb": file.stat().st_size / 1e6}
    file.unlink()
    return answer


def _deltasql(place: dict[str, Any], backend: str) -> tuple[float, Path]:
    log = Path(place["dir"]) / "table/_delta_log"
    with ours.connect(place, backend, "off") as catalog:
        ours.warm_arrow(catalog)
        version = catalog.table("t").refresh().mirrored_through
        file = log / f"{version:020d}.checkpoint.parquet"
        for old in (file, log / "_last_checkpoint"):
            old.unlink(missing_ok=True)
        started = time.perf_counter()
        catalog.mirror.checkpoint("t", version)
        return time.perf_counter() - started, file


def _deltalake(place: dict[str, Any], _: str) -> tuple[float, Path]:
    from deltalake import DeltaTable

    kept, copy = Path(place["dir"]) / "table", Path(place["dir"]) / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(kept, copy)
    started = time.perf_counter()
    table = DeltaTable(str(copy))
    table.create_checkpoint()
    seconds = time.perf_counter() - started
    return seconds, copy / f"_delta_log/{table.version():020d}.checkpoint.parquet"


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return pq.read_metadata(file).num_rows


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def twin(place: dict[str, Any], backend: str, n: int) -> dict[str, Any]:
    """In a child: make a table whose times and ids depend on nothing, and its checkpoint twice."""
    now = [1_800_000_000_000]
    numbers = itertools.count()
    with ours.connect(place, backend, "inline", clock=lambda: now[0]) as catalog:
        inspect(catalog).connection.new_id = lambda: str(uuid.UUID(int=next(numbers), version=4))
        location = f"{place['dir']}/{backend}"
        table = catalog.create_table(
            "t", location=location, schema=synthetic.SCHEMA, partition_by=["date"]
        )
        for chunk in synthetic.chunks(n, _TWIN_ADDS):
            now[0] += 1000
            table.commit([synthetic.add(i, n) for i in chunk])
        now[0] += 1000
        table.commit([_remove(i, n, now[0]) for i in range(0, n, 10)])
        log = Path(location) / "_delta_log"
        return {"digests": [_again(catalog, log, table.version) for _ in range(2)]}


def _remove(i: int, n: int, now: int) -> dict[str, Any]:
    add = synthetic.add(i, n)["add"]
    names = ("path", "partitionValues", "size", "dataChange")
    more = {"deletionTimestamp": now, "extendedFileMetadata": True}
    return {"remove": {name: add[name] for name in names} | more}


def _again(catalog: Any, log: Path, version: int) -> str:
    file = log / f"{version:020d}.checkpoint.parquet"
    catalog.mirror.checkpoint("t", version)
    found = _digest(file)
    file.unlink()
    return found


def checkpoint(plan: Plan, n: int, wide: int) -> Case:
    """Measure a table of n files, and once more one of `wide` files for its memory."""
    found, failed = _rounds(plan, n)
    big = _wide(plan, wide)
    rows, bars = [], []
    middle = {kind: median_of(_measured(found[kind])) for kind in KINDS}
    base = middle["deltalake"]
    for kind in KINDS:
        times, same = ratio(base, middle[kind]), _same_bytes(kind, found[kind])
        rows.append(_row(f"{LABELS[kind]}, {n:,} files", found[kind], times, same, failed))
    rows.append(_row(f"{LABELS[WIDE]}, {wide:,} files", big, None, "-", failed))
    if n >= _FULL:  # the bars are those of a million files
        for kind in KINDS[:2]:
            speed = ratio(base, middle[kind])
            memory = max((one["rss_mb"] for one in found[kind]), default=None)
            bars.append(Bar.least(f"checkpoint, {LABELS[kind]}, against deltalake", speed, 1.8))
            bars.append(Bar.most(f"checkpoint, {LABELS[kind]}, peak memory", memory, 500, " MB"))
        bars += _flat(found["deltasql-sqlite"], big, (n, wide))
    bars += _identity(plan, found)
    return Case(f"checkpoint-{n}", f"Write a checkpoint, {n:,} files", "s", rows, bars, _how(plan))


def _rounds(plan: Plan, n: int) -> tuple[Found, dict[str, str]]:
    found: Found = {kind: [] for kind in KINDS}
    failed: dict[str, str] = {}
    for kind in KINDS:
        if not plan.has(kind):
            failed[LABELS[kind]] = "PostgreSQL cannot be had"
            continue
        for size in (TINY, n):
            _ready(plan, kind, size)
    os.sync()  # what building left to be written would slow whoever comes first
    for number in range(plan.warm_rounds + plan.mirror_rounds):
        for kind in KINDS:
            if LABELS[kind] in failed:
                continue
            try:
                answer = _measure(plan, kind, n)
            except CaseFailedError as error:
                failed[LABELS[kind]] = str(error)
                found[kind].clear()
                continue
            if number >= plan.warm_rounds:
                found[kind].append(answer)
    return found, failed


def _ready(plan: Plan, kind: str, n: int) -> None:
    ensure(plan, kind, n)
    name, _, backend = kind.partition("-")
    if name == "deltasql":
        call("bench.ours:mirror_all", place=place_of(plan, kind, n), backend=backend)


def _measure(plan: Plan, kind: str, n: int) -> dict[str, Any]:
    small = "deltasql-sqlite" if kind == WIDE else kind
    place, tiny = place_of(plan, kind, n), place_of(plan, small, TINY)
    answer = call("bench.checkpoints:measure", kind=kind, place=place, tiny=tiny, n=n)
    told = f"{answer['seconds']:.2f} s, {answer['rss_mb']} MB"
    plan.say(f"{kind}, checkpoint of {n:,} files: {told}")
    return answer


def _wide(plan: Plan, n: int) -> list[dict[str, Any]]:
    ensure(plan, WIDE, n)
    return [_measure(plan, WIDE, n)]


def _measured(answers: list[dict[str, Any]]) -> list[Measured]:
    return [Measured(one["seconds"], one["rss_mb"]) for one in answers]


def _row(
    label: str,
    answers: list[dict[str, Any]],
    times: float | None,
    same: str,
    failed: dict[str, str],
) -> Row:
    size = answers[0]["mb"] if answers else None
    more = {"x deltalake": times, "file, MB": size, "bytes in all rounds": same}
    row = Row.of(label, _measured(answers), more)
    reason = next((text for name, text in failed.items() if label.startswith(name)), "")
    return row if answers else Row(label, None, None, None, None, more, reason)


def _same_bytes(kind: str, answers: list[dict[str, Any]]) -> str:
    if kind == "deltalake" or len(answers) < 2:
        return "-"
    return "the same" if len({one["digest"] for one in answers}) == 1 else "they differ"


def _flat(
    small: list[dict[str, Any]], big: list[dict[str, Any]], sizes: tuple[int, int]
) -> list[Bar]:
    lowest = min((one["rss_mb"] for one in small), default=None)
    highest = max((one["rss_mb"] for one in big), default=None)
    text = f"checkpoint, SQLite, peak memory at {sizes[1]:,} files against {sizes[0]:,}"
    return [Bar.most(text, ratio(highest, lowest), 1.25)]


def _identity(plan: Plan, found: Found) -> list[Bar]:
    """One version has one sequence of bytes: written twice, and from every database."""
    digests: set[str] = set()
    backends = [backend for backend in ours.BACKENDS if plan.has(backend)]
    with fresh_place(plan) as place:
        for backend in backends:
            answer = call("bench.checkpoints:twin", place=place, backend=backend, n=_TWIN_FILES)
            digests.update(answer["digests"])
    others = sum(
        len({one["digest"] for one in answers}) - 1
        for kind, answers in found.items()
        if kind != "deltalake" and answers
    )
    names = " and ".join(ours.BACKENDS[backend] for backend in backends)
    text = f"checkpoints of one version with other bytes, written twice by {names}"
    return [
        Bar.most(f"{text}, {_TWIN_FILES:,} files", len(digests) - 1, 0),
        Bar.most("checkpoints of the measured tables with other bytes in another round", others, 0),
    ]


def _how(plan: Plan) -> str:
    return (
        f"Median of {plan.mirror_rounds} rounds. deltasql: catalog.mirror.checkpoint on a "
        "connection that is open, from SQL to the hint, with everything read back and compared "
        "before the put; the file is synced to disk. deltalake: opening the table and "
        "create_checkpoint on a fresh copy of its log, which is not synced. The larger table is "
        f"written once, for its memory; beyond the first {bulk.COMMITTED:,} its files were not "
        "committed but made inside SQL. "
        f"The bytes of two databases are compared on a table of {_TWIN_FILES:,} files with "
        "tombstones, whose ids and times are given; those of the measured tables differ by these."
    )
