"""The cases `import-*`: foreign logs into both databases, beside deltalake merely opening them."""

import statistics
from typing import Any

from bench import logs, ours
from bench.child import CaseFailedError, call
from bench.commits import fresh_place
from bench.importing import VALIDATING
from bench.results import Bar, Case, Measured, Plan, Row, ratio

_TINY = 12
_HOURS_S = 4 * 3600
_TITLES = {
    "actions": "Import {:,} commits of 1,000 actions each",
    "commits": "Import {:,} small commits",
}
_FULL = {"actions": 1_000, "commits": 50_000}
# Of the time that deltalake takes to open the log: import, index and comparison.
_SPEED = {
    "actions": {"sqlite": 0.6, "postgres": 0.5},
    "commits": {"sqlite": 2, "postgres": 2},
}
_CPU_S = {"sqlite": 15, "postgres": 18}
_MASTER = "local[2]"
_PARSERS = ("local[1]", _MASTER)
Answers = list[dict[str, Any]]


def imports(plan: Plan, kind: str, commits: int) -> Case:
    """Measure all contenders in turn; a contender that fails leaves no figure."""
    log, tiny = logs.ensure(plan, kind, commits), logs.ensure(plan, kind, _TINY)
    found: dict[str, Answers] = {label: [] for label in _contenders(plan)}
    failed: dict[str, str] = {}
    for number in range(plan.warm_rounds + plan.mirror_rounds):
        for label, contender in _contenders(plan).items():
            if label in failed:
                continue
            try:
                answer = _measure(plan, contender, log, tiny)
            except CaseFailedError as error:
                failed[label] = str(error)
                found[label].clear()
                continue
            plan.say(f"{label}: {answer['seconds']:.2f} s, {answer['rss_mb']} MB")
            if number >= plan.warm_rounds:
                found[label].append(answer)
    _require_same_files(found)
    rows = [_row(label, found, failed.get(label, "")) for label in found]
    bars = _bars(found, kind) if commits >= _FULL[kind] else []
    title = _TITLES[kind].format(commits)
    return Case(f"import-{kind}-{commits}", title, "s", rows, bars, _how(plan))


def million(plan: Plan, commits: int) -> Case:
    """Import a very long log once, for its memory and its time."""
    log, tiny = logs.ensure(plan, "commits", commits), logs.ensure(plan, "commits", _TINY)
    label = _label("local", "sqlite")
    answer = _measure(plan, {"engine": "local", "backend": "sqlite"}, log, tiny)
    more = {"commits/s": commits / answer["seconds"], **_shares([answer])}
    row = Row.of(label, [Measured(answer["seconds"], answer["rss_mb"])], more)
    how = f"Once. {_LOG} The listing alone has {commits:,} names."
    return Case(
        f"import-million-{commits}", f"Import {commits:,} small commits", "s", [row], [], how
    )


def _contenders(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return by label what each contender is called with."""
    found: dict[str, dict[str, Any]] = {_OPENS: {}}
    for engine in ("local", _MASTER):
        for backend in ours.BACKENDS:
            if plan.has(backend):
                found[_label(engine, backend)] = {"engine": engine, "backend": backend}
    found |= {_parser(engine): {"engine": engine} for engine in _PARSERS}
    limits = {_limit(one): {"limit": one} for one in ours.BACKENDS if plan.has(one)}
    return found | limits


_OPENS = "deltalake (delta-rs) opens the log"


def _limit(backend: str) -> str:
    return f"{ours.BACKENDS[backend]} alone: rows parsed before, one bare table, one index"


def _label(engine: str, backend: str) -> str:
    name = "local engine" if engine == "local" else f"Spark {engine}"
    return f"deltasql, {name}, {ours.BACKENDS[backend]}"


def _parser(engine: str) -> str:
    return f"deltasql, Spark {engine}, reads and folds only"


def _measure(plan: Plan, given: dict[str, Any], log: str, tiny: str) -> dict[str, Any]:
    both = {"log": log, "tiny": tiny}
    if not given:
        return call("bench.importing:opened", timeout=_HOURS_S, **both)
    with fresh_place(plan) as place:
        if "limit" in given:
            backend = given["limit"]
            return call(
                "bench.importing:bare", timeout=_HOURS_S, place=place, backend=backend, **both
            )
        target = "load" if "backend" in given else "parsed"
        return call(f"bench.importing:{target}", timeout=_HOURS_S, place=place, **given, **both)


def _require_same_files(found: dict[str, Answers]) -> None:
    counts = {one["files"] for answers in found.values() for one in answers if "files" in one}
    if len(counts) > 1:
        raise CaseFailedError(f"the contenders found different files: {sorted(counts)}")


def _middle(found: dict[str, Answers], label: str) -> float | None:
    answers = found.get(label)
    return statistics.median([one["seconds"] for one in answers]) if answers else None


def _share(answers: Answers, step: str) -> float | None:
    shares = [100 * one["steps"].get(step, 0.0) / one["seconds"] for one in answers]
    return statistics.median(shares) if shares else None


def _shares(answers: Answers) -> dict[str, Any]:
    return {
        "validation, %": _share(answers, VALIDATING),
        "database, MB": statistics.median([one["mb"] for one in answers]),
    }


def _row(label: str, found: dict[str, Answers], reason: str) -> Row:
    answers = found[label]
    more: dict[str, Any] = {"x deltalake": None, "x the other": None}
    if answers and "steps" in answers[0]:
        opens = _middle(found, _OPENS)
        more["x deltalake"] = ratio(opens, _middle(found, label))
        # Spark's JVM is no child of ours, so only the local engine's is complete
        more["CPU, s"] = statistics.median([one["cpu"] for one in answers])
        more |= _shares(answers)
    if label in {_limit(backend) for backend in ours.BACKENDS}:
        more["x deltalake"] = ratio(_middle(found, _OPENS), _middle(found, label))
    if label == _parser(_MASTER):
        more["x the other"] = ratio(_middle(found, _parser(_PARSERS[0])), _middle(found, label))
    for backend in ours.BACKENDS:
        if label == _label(_MASTER, backend):
            local = _middle(found, _label("local", backend))
            more["x the other"] = ratio(_middle(found, label), local)
    tree = [one["tree_mb"] for one in answers if "tree_mb" in one]
    more["all processes, MB"] = max(tree, default=None)
    row = Row.of(label, [Measured(one["seconds"], one["rss_mb"]) for one in answers], more)
    return row if answers else Row(label, None, None, None, None, more, reason)


def _bars(found: dict[str, Answers], kind: str) -> list[Bar]:
    bars = []
    for backend, name in ours.BACKENDS.items():
        local, spark = _label("local", backend), _label(_MASTER, backend)
        ours_s = _middle(found, local)
        text = f"import-{kind}, {name}"
        speed = ratio(_middle(found, _OPENS), ours_s)
        wanted = _SPEED[kind][backend]
        bars.append(Bar.least(f"{text}, against deltalake opening the log", speed, wanted))
        if kind == "actions":
            answers = found.get(local, [])
            cpu = statistics.median([one["cpu"] for one in answers]) if answers else None
            bars.append(Bar.most(f"{text}, CPU of all processes", cpu, _CPU_S[backend], " s"))
            peak = max((one["tree_mb"] for one in answers), default=None)
            bars.append(Bar.most(f"{text}, memory of all processes", peak, 1_300, " MB"))
        slower = ratio(_middle(found, spark), ours_s)
        bars.append(Bar.most(f"{text}, Spark's time against the local engine's", slower, 1.5, "x"))
        share = _share(found.get(local, []), VALIDATING)
        bars.append(Bar.most(f"{text}, share of the comparison with the log", share, 10, " %"))
    return bars


_LOG = (
    "A log without checkpoints on local files, seven of ten actions adds with statistics of five "
    "columns, three removes of earlier files."
)


def _how(plan: Plan) -> str:
    return (
        f"Median of {plan.mirror_rounds} rounds. {_LOG} An import is what `deltasql import` does, "
        "from the listing to a table that can be read, with the comparison (and its share of the "
        "time) and the index of statistics, which is written meanwhile, on a "
        "connection that is open; Spark has started and its workers have read a tiny log. "
        "deltalake: DeltaTable(path). All find the same number of files. "
        "`x the other`: the time of Spark as a multiple of the local engine's, and of "
        "reading alone the gain of two workers over one. `all processes` is Spark's driver, its "
        "JVM and its workers, shared memory counted more than once. `SQLite alone` is what no "
        "import can undercut: the rows of all files, in memory as Arrow, written and synced."
    )
