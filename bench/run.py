"""`python -m bench.run [--quick] [--only NAME]`: measure, write docs/benchmarks.md and .json."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from bench import (
    checkpoints,
    commits,
    drain,
    full_load,
    help_time,
    imports,
    lag,
    outage,
    planning,
    report,
    scale,
    spark_cases,
    staging,
    threads,
    verifying,
)
from bench.child import CaseFailedError
from bench.disk import sync_ms
from bench.frozen import freeze
from bench.results import Case, Plan
from bench.server import ROOT, postgres

Measure = Callable[[Plan], Case]
CASES: dict[str, Measure] = {
    "help": help_time.help_time,
    "commits": commits.one_writer,
    "writers": commits.eight_writers,
    "threads": threads.threads,
    "list-100k": lambda plan: planning.listing(plan, 100_000),
    "list-1m": lambda plan: planning.listing(plan, 1_000_000),
    "partition-1m": lambda plan: planning.pruning(plan, 1_000_000, "partition"),
    "range-1m": lambda plan: planning.pruning(plan, 1_000_000, "range"),
    "checkpoint-1m": lambda plan: checkpoints.checkpoint(plan, 1_000_000, 5_000_000),
    "staging-1m": lambda plan: staging.staging(plan, 1_000_000),
    "drain": lambda plan: drain.backlog_drain(plan, 50 if plan.is_quick else 2_000),
    "lag": lag.lag,
    "full-load": full_load.full_load,
    "outage": outage.outage,
    "verify-10k": lambda plan: verifying.verify(plan, 10_000),
    "import-actions": lambda plan: imports.imports(plan, "actions", 30 if plan.is_quick else 1_000),
    "import-commits": lambda plan: imports.imports(
        plan, "commits", 1_000 if plan.is_quick else 50_000
    ),
    "import-million": lambda plan: imports.million(plan, 20_000 if plan.is_quick else 1_000_000),
    "spark-scan": lambda plan: spark_cases.scan(plan, 200_000 if plan.is_quick else 20_000_000),
    "spark-files-100k": lambda plan: spark_cases.selective(plan, 100_000),
    "spark-files-1m": lambda plan: spark_cases.selective(plan, 1_000_000),
    "spark-append": lambda plan: spark_cases.appends(plan, 10_000 if plan.is_quick else 1_000_000),
    "spark-merge": lambda plan: spark_cases.merge(plan, 200_000 if plan.is_quick else 20_000_000),
}
# Only by name: they fill tens of gigabytes.
LARGE: dict[str, Measure] = {
    "scale-10m": lambda plan: scale.scale(plan, 999),
    "scale-40m": lambda plan: scale.scale(plan, 4_329, ("sqlite",)),
}
_BIG = ("-1m", "-100k", "-10k", "-million")
# What --quick takes instead of the cases that need a big table.
QUICK: dict[str, Measure] = {
    **{name: case for name, case in CASES.items() if not name.endswith(_BIG)},
    "partition-100k": lambda plan: planning.pruning(plan, 100_000, "partition"),
    "range-100k": lambda plan: planning.pruning(plan, 100_000, "range"),
    "checkpoint-10k": lambda plan: checkpoints.checkpoint(plan, 10_000, 50_000),
    "list-100k": CASES["list-100k"],
    "spark-files-40k": lambda plan: spark_cases.selective(plan, 40_000),
    "staging-10k": lambda plan: staging.staging(plan, 10_000),
    "verify-200": lambda plan: verifying.verify(plan, 200),
}


def main() -> int:
    """Run the cases that were asked for; the exit code tells whether every bar holds."""
    given = _arguments()
    chosen = QUICK if given.quick else CASES
    if given.only:
        chosen = {name: {**CASES, **QUICK, **LARGE}[name] for name in given.only}
    home = given.home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    source = freeze(home)
    before = _quiet(home)
    with postgres(home / "pg") as server:
        plan = Plan(home, server, given.quick, source)
        cases, broken = [], []
        for name, case in chosen.items():
            plan.say(f"== {name}")
            try:
                cases.append(case(plan))
            except CaseFailedError as error:  # what the other cases found must not be lost
                broken.append(f"BROKE: {name}: {error}")
    told = report.merged(given.docs, plan, cases) if given.only else cases
    report.write(given.docs, plan, told, before, _quiet(home))
    print("\n".join(broken), end="\n" if broken else "")
    return _tell(cases) or int(bool(broken))


def _quiet(home: Path) -> report.Quiet:
    return report.Quiet(os.getloadavg()[0], sync_ms(home))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, some minutes")
    names = sorted({*CASES, *QUICK, *LARGE})
    parser.add_argument("--only", action="append", choices=names, help="one case; repeatable")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="where tables are kept")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where to write")
    return parser.parse_args()


def _tell(cases: list[Case]) -> int:
    bars = [bar for case in cases for bar in case.bars]
    for bar in bars:
        verdict = {True: "holds", False: "MISSED", None: "no figure"}[bar.holds]
        measured = "-" if bar.measured is None else f"{bar.measured:.3g}"
        print(f"{verdict}: {bar.text}: {measured} (wanted {bar.wanted})")
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
