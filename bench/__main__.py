"""Commits per second, opening and planning: deltasql and delta-rs on the same table.

Sizes are small by default; the numbers in the documentation use `--files 100000 --commits 1000`.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
from deltalake.transaction import AddAction, CommitProperties

import deltasql
from deltasql.protocol.actions import Add
from deltasql.settings import Settings

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
DAYS = 100


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def an_add(number: int) -> Add:
    day = f"d{number % DAYS:03}"
    bounds = {"minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
    return Add(
        data_change=True,
        modification_time=1_700_000_000_000,
        partition_values={"day": day},
        path=f"day={day}/part-{number:08}.parquet",
        size=1000,
        stats=json.dumps({"numRecords": 1, **bounds}),
    )


def make(home: Path, name: str, mode: str) -> deltasql.Catalog:
    settings = Settings.load({}, home, {"mirror.mode": mode})
    catalog = deltasql.connect(f"deltasql://sqlite/{home}/{name}.db", settings=settings)
    catalog.create_table(name, location=f"{home}/{name}", schema=SCHEMA, partition_by=["day"])
    return catalog


def commits_per_second(home: Path, mode: str, commits: int) -> float:
    with make(home, f"commits_{mode}", mode) as catalog:
        table = catalog.table(f"commits_{mode}")
        begun = time.perf_counter()
        for number in range(commits):
            table.commit([an_add(number)])
        return commits / (time.perf_counter() - begun)


def delta_rs_commits_per_second(home: Path, commits: int) -> float:
    path = str(home / "delta_rs")
    table = deltalake.DeltaTable.create(path, SCHEMA, partition_by=["day"])
    options = CommitProperties(max_commit_retries=0)
    begun = time.perf_counter()
    for number in range(commits):
        add = an_add(number)
        values = dict(add.partition_values)
        action = AddAction(add.path, add.size, values, add.modification_time, True, add.stats or "")
        table.create_write_transaction(
            [action], "append", SCHEMA, ["day"], commit_properties=options
        )
        table.update_incremental()
    return commits / (time.perf_counter() - begun)


def opening(home: Path, files: int) -> list[dict[str, object]]:
    with make(home, "wide", "inline") as catalog:
        table = catalog.table("wide")
        table.commit([an_add(number) for number in range(files)])
        table.wait_mirrored(timeout=60)
        where = "day = 'd007'"
        ours = seconds(lambda: table.snapshot().files(["path", "size"]))
        pruned = seconds(lambda: table.snapshot(where=where).files(["path", "size"]))
    path = f"{home}/wide"
    theirs = seconds(lambda: deltalake.DeltaTable(path).get_add_actions())
    filters = [("day", "=", "d007")]
    planned = seconds(lambda: deltalake.DeltaTable(path).file_uris(filters))
    return [
        row(f"open and list {files} files, ms", ours * 1e3, theirs * 1e3),
        row(f"plan one partition of {files} files, ms", pruned * 1e3, planned * 1e3),
    ]


def row(work: str, ours: float, theirs: float | None) -> dict[str, object]:
    return {"work": work, "deltasql": round(ours, 1), "delta-rs": theirs and round(theirs, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=100)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="deltasql-bench-"))
    try:
        inline = commits_per_second(home, "inline", given.commits)
        theirs = delta_rs_commits_per_second(home, given.commits)
        rows = [
            row("commits/s, one writer, mirrored inline", inline, theirs),
            row(
                "commits/s, one writer, SQL only",
                commits_per_second(home, "off", given.commits),
                None,
            ),
            *opening(home, given.files),
        ]
    finally:
        shutil.rmtree(home)
    print(f"{'':<44}{'deltasql':>10}{'delta-rs':>10}")
    for one in rows:
        theirs_shown = one["delta-rs"] if one["delta-rs"] is not None else "-"
        print(f"{one['work']:<44}{one['deltasql']:>10}{theirs_shown:>10}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
