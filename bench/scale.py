"""The same questions to a catalog of one big table and to one of a thousand tables and more files.

What a commit or a pruned plan of one table costs may depend on the table and not on what else the
catalog holds.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import fill, ours, synthetic
from bench.child import CaseFailedError, call
from bench.results import Bar, Case, Measured, Plan, Row, percentile, ratio
from deltasql.testing import inspect

Answer = dict[str, Any]
Samples = dict[str, list[tuple[float, float]]]
_EACH = 9_009
# Smaller tables that are purged and forgotten, a new one in each round.
_SPARE = 12
_COMMITS, _REPLACES, _ASKED, _ASKED_SLOWLY = 150, 30, 40, 2
_PLANS = ("one partition", "0.1 % of a range", "one id", "no file", "an old version")
_LIMITS = {"commit of one add": 1.5, **dict.fromkeys((f"plan, {name}" for name in _PLANS), 3.0)}


class _Sizes:
    """How many files the big table has, and how many smaller tables lie beside it."""

    def __init__(self, plan: Plan, others: int) -> None:
        self.big, self.each = (10_000, 500) if plan.is_quick else (1_000_000, _EACH)
        self.others = min(others, 2 * _SPARE) if plan.is_quick else others
        self.per_partition = 10 if plan.is_quick else 1_000

    @property
    def files(self) -> int:
        return self.big + self.others * self.each

    def tables(self, first: int = 0) -> list[fill.Filled]:
        found = [fill.Filled("t", self.big, per_partition=self.per_partition)]
        found += [fill.Filled(f"o.t{number}", self.each) for number in range(self.others)]
        return found[first:]


def _place(plan: Plan, backend: str, sizes: _Sizes) -> dict[str, Any]:
    name = f"scale-{backend}-{sizes.others}-{'quick' if plan.is_quick else 'full'}"
    return plan.place(plan.home / name, name.replace("-", "_"))


def _ensure(plan: Plan, backend: str, sizes: _Sizes) -> None:
    place = _place(plan, backend, sizes)
    folder = Path(place["dir"])
    if (folder / "built").exists():
        return
    folder.mkdir(parents=True)
    if backend == "postgres":
        plan.make_database(place["name"])
    plan.say(f"filling {sizes.files:,} files into {backend}")
    started = time.perf_counter()
    fill.fill(place, backend, sizes.tables())
    plan.say(f"filled in {time.perf_counter() - started:,.0f} s")
    (folder / "built").touch()


def measure(place: dict[str, Any], backend: str, big: int, per_partition: int) -> Answer:
    """In a child: ask everything of one catalog; seconds and CPU seconds of each call."""
    started = time.perf_counter()
    with ours.connect(place, backend, "off") as catalog:
        table = catalog.table("t")
        opened = time.perf_counter() - started
        ours.warm_arrow(catalog)
        clock = _Clock(place, backend)
        for name, ask in _questions(catalog, table, big, per_partition):
            ask()  # reads what is on the disk, prepares the statement
            times = _ASKED_SLOWLY if "vacuum" in name else _ASKED
            clock.time(f"plan, {name}" if name in _PLANS else name, ask, times)
        for name, write, times in _writes(catalog, table, big):
            clock.time(name, write, times)
        size = inspect(catalog).database.fetch_all("database_size")[0][0]
    found = {name: [list(one) for one in each] for name, each in clock.samples.items()}
    return {"samples": found, "opened": opened, "bytes": int(size)}


def checkpoint(place: dict[str, Any], backend: str) -> Answer:
    """In a child: write the checkpoint of the big table anew."""
    with ours.connect(place, backend, "off") as catalog:
        for old in (Path(place["dir"]) / "lake/t/_delta_log").glob("*.checkpoint.parquet"):
            old.unlink()
        clock = _Clock(place, backend)
        clock.time("checkpoint of the big table", lambda: catalog.mirror.checkpoint("t"), 1)
    return {"samples": {name: [list(one) for one in e] for name, e in clock.samples.items()}}


def _questions(
    catalog: Any, table: Any, big: int, per_partition: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    from deltasql.mirror.queue import MirrorStatusTracker

    ever = big * 6 // 5
    middle = ever // 2 * synthetic.ROWS
    day = synthetic.DAYS[big // per_partition // 2]
    last = middle + ever // 1_000 * synthetic.ROWS - 1
    old = table.version // 2
    wanted = {
        "one partition": (f"date = '{day}'", None, per_partition),
        "0.1 % of a range": (f"id >= {middle} and id <= {last}", None, big // 1_000),
        "one id": (f"id = {middle}", None, 1),
        "no file": ("amount >= 2000 and amount <= 3000", None, 0),
        "an old version": (f"id >= 0 and id <= {ever // 1_000 * synthetic.ROWS - 1}", old, None),
    }
    for name, (where, version, files) in wanted.items():
        yield name, lambda at=(where, version, files): _plan(table, *at)
    tracker = MirrorStatusTracker(inspect(catalog).database)
    moment = table.snapshot(old).timestamp
    yield "history(20)", lambda: table.history(20)
    yield "the version of a time", lambda: table.snapshot(timestamp=moment)
    yield "mirror, tables behind", tracker.find_behind
    yield "mirror, versions without a row", lambda: tracker.make_missing(now=1)
    yield "all tables", catalog.tables
    short = {"retain": timedelta(), "allow_short_retention": True, "orphans": False}
    yield "vacuum plan of the big table", lambda: table.vacuum(dry_run=True, **short)
    yield "retention plan", lambda: catalog.forget_history("t", timedelta())


def _plan(table: Any, where: str, version: int | None, files: int | None) -> None:
    found = table.snapshot(version).files(where=where).num_rows
    if files is not None and found != files:
        raise CaseFailedError(f"wrong answer to {where}: {found} files, not {files}")
    if files is None and not found:
        raise CaseFailedError(f"no files of version {version}")


def _writes(catalog: Any, table: Any, big: int) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """What writes: each on its own table where it takes the table away."""
    numbers = iter(range(big * 10 + time.time_ns() % 10**12, 10**18))

    def add() -> dict[str, Any]:
        number = next(numbers)
        return synthetic.add(number, number + 1)

    yield "warming", lambda: table.commit([add()]), 20
    yield "commit of one add", lambda: table.commit([add()]), _COMMITS
    first = table.snapshot().files(["path"], where=f"id < {fill.KEYED * synthetic.ROWS - 1}")
    paths = iter(first.column("path").to_pylist())

    def replace() -> None:
        gone = {"path": next(paths), "dataChange": True, "deletionTimestamp": 1}
        table.commit([{"remove": gone}, add()])

    yield "commit of a remove and an add", replace, _REPLACES
    spare = iter(sorted(one.name for one in catalog.tables() if one.name.startswith("o.")))
    database, dropping = inspect(catalog).database, inspect(catalog).metastore.dropping()

    def row() -> Any:
        return inspect(catalog).metastore.table(next(spare))

    spent = row()
    yield "retention of a smaller table", lambda: _forget(database, spent), 1
    yield "purge of a smaller table, in SQL", lambda: dropping.purge(spent), 1


def _forget(database: Any, row: Any) -> None:
    from deltasql.metastore.retention import ForgetPlan, Forgetting

    middle = row.current_version // 2
    Forgetting(database).run(row, ForgetPlan(middle, middle, middle))


class _Clock:
    """Seconds and CPU seconds of calls; on PostgreSQL the server's CPU is the mean of all calls."""

    def __init__(self, place: dict[str, Any], backend: str) -> None:
        self.samples: Samples = {}
        pid = Path(place["dir"]).parent / "pg/data/postmaster.pid"
        self._server = int(pid.read_text().split()[0]) if backend == "postgres" else None

    def time(self, name: str, ask: Callable[[], Any], times: int) -> None:
        before = self._server_cpu()
        found = []
        for _ in range(times):
            cpu, started = _own_cpu(), time.perf_counter()
            ask()
            found.append((time.perf_counter() - started, _own_cpu() - cpu))
        more = (self._server_cpu() - before) / times
        self.samples[name] = [(seconds, cpu + more) for seconds, cpu in found]

    def _server_cpu(self) -> float:
        """Return the CPU seconds of the server's processes, to a hundredth."""
        if self._server is None:
            return 0.0
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[1]) == self._server:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def scale(plan: Plan, others: int, backends: tuple[str, ...] = ("sqlite", "postgres")) -> Case:
    """Compare a catalog of one big table with one that has so many smaller tables beside it."""
    small, large = _Sizes(plan, _SPARE), _Sizes(plan, others)
    backends = tuple(backend for backend in backends if plan.has(backend))
    rows, bars = [], []
    for backend in backends:
        for sizes in (small, large):
            _ensure(plan, backend, sizes)
    os.sync()
    for backend in backends:
        found = _rounds(plan, backend, (small, large))
        more_rows, more_bars = _compare(backend, found, (small, large))
        rows, bars = rows + more_rows, bars + more_bars
    title = f"A catalog of {large.files:,} files in {large.others + 1:,} tables"
    return Case(f"scale-{others}", title, "ms", rows, bars, _how(plan, small))


def _rounds(plan: Plan, backend: str, both: tuple[_Sizes, _Sizes]) -> list[list[Answer]]:
    found: list[list[Answer]] = [[], []]
    for number in range(plan.mirror_rounds):
        for which, sizes in enumerate(both):
            place = _place(plan, backend, sizes)
            more = {"big": sizes.big, "per_partition": sizes.per_partition}
            answer = call("bench.scale:measure", place=place, backend=backend, **more)
            written = call("bench.scale:checkpoint", place=place, backend=backend)
            answer["samples"] |= written["samples"]
            answer["checkpoint_mb"] = written["rss_mb"]
            found[which].append(answer)
            plan.say(f"{backend}, {sizes.files:,} files, round {number + 1}: {_short(answer)}")
    return found


def _short(answer: Answer) -> str:
    return ", ".join(
        f"{name} {statistics.median(s for s, _ in each) * 1e3:.2f}"
        for name, each in answer["samples"].items()
    )


def _compare(
    backend: str, found: list[list[Answer]], both: tuple[_Sizes, _Sizes]
) -> tuple[list[Row], list[Bar]]:
    label, rows, bars = ours.BACKENDS[backend], [], []
    small, large = found
    for name in small[0]["samples"]:
        if name == "warming":
            continue
        alone, beside = _of(small, name), _of(large, name)
        times = ratio(beside["median"], alone["median"])
        cpu = ratio(beside["cpu"], alone["cpu"])
        kind = "checkpoint_mb" if name.startswith("checkpoint") else "rss_mb"
        memory = max(answer[kind] for answer in large)
        more = {
            f"of {both[0].files:,} files": alone["median"],
            "x": times,
            "p99": beside["p99"],
            "p99 of the smaller": alone["p99"],
            "CPU": beside["cpu"],
            "x CPU": cpu,
        }
        rounds = [Measured(value, memory) for value in beside["rounds"]]
        rows.append(Row.of(f"{label}, {name}", rounds, more))
        if name in _LIMITS:
            text = f"{label}, {both[1].files:,} files, {name}, against {both[0].files:,}"
            bars.append(Bar.most(text, times, _LIMITS[name], "x"))
    sizes = [_bytes_per_file(answers, size) for answers, size in zip(found, both, strict=True)]
    more = {f"of {both[0].files:,} files": sizes[0], "x": ratio(sizes[1], sizes[0])}
    memory = max(answer["rss_mb"] for answer in large)
    rows.append(Row.of(f"{label}, bytes per live file", [Measured(sizes[1], memory)], more))
    return rows, bars


def _bytes_per_file(answers: list[Answer], sizes: _Sizes) -> float:
    return answers[0]["bytes"] / sizes.files


def _of(answers: list[Answer], name: str) -> dict[str, Any]:
    """Return the medians over the rounds, in milliseconds."""
    each = [answer["samples"][name] for answer in answers]
    rounds = [statistics.median(s for s, _ in one) * 1e3 for one in each]
    last = [percentile([s for s, _ in one], 0.99) or 0.0 for one in each]
    cpu = [statistics.fmean(c for _, c in one) * 1e3 for one in each]
    return {
        "rounds": rounds,
        "median": statistics.median(rounds),
        "p99": statistics.median(last) * 1e3,
        "cpu": statistics.median(cpu),
    }


def _how(plan: Plan, small: _Sizes) -> str:
    return (
        f"{plan.mirror_rounds} rounds, in turn on both catalogs, each in a fresh process. Both "
        f"hold one table of {small.big:,} live files, which is asked, and others of "
        f"{small.each:,}; a file in six has been removed. They are filled inside SQL "
        f"(`bench/fill.py`), the bytes of their commits are left out. A round is {_COMMITS} "
        f"commits of one add, {_REPLACES} of a remove and an add, and {_ASKED} of each question "
        f"({_ASKED_SLOWLY} of a vacuum plan) after an untimed one; figures are medians of the "
        "rounds' medians, p99 that of the rounds' p99. CPU is that of the client and of the "
        "server's processes together. The mirror is off."
    )
