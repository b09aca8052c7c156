"""Tables for the cases on Spark: made by deltasql, mirrored, and read by Delta Spark from that log.

One has many rows in few files; the others have very many files, of which only those exist that the
selective question needs.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

from bench import ours, spark_session, synthetic
from bench.child import call
from bench.results import Plan
from bench.server import ROOT

_ADDS = 5_000
_FILES = 20
NEEDED = 20
# Six columns of usual kinds; what a row holds depends on its number alone.
ROWS = [
    "cast(id as bigint) id",
    "cast(id % 1000 as int) k",
    "rand(7) v",
    "concat('name-', cast(id % 100003 as string), '-', cast(hash(id) as string)) s",
    "timestamp_micros(1700000000000000L + id * 1000003L) ts",
    "cast((id % 10007) / 4 as decimal(12,2)) d",
]


def rows_table(plan: Plan, rows: int) -> dict[str, Any]:
    """Return the place of a table with so many rows in 20 files."""
    return _ensure(plan, "spark-rows", rows)


def files_table(plan: Plan, files: int) -> dict[str, Any]:
    """Return the place of a table with so many files."""
    return _ensure(plan, "spark-files", files)


def selection(n: int) -> tuple[str, int, int]:
    """Return the partition and the ids, first and last, that 20 of n files hold."""
    first = n // 2
    return synthetic.day(first, n), first * synthetic.ROWS, (first + NEEDED) * synthetic.ROWS - 1


def _ensure(plan: Plan, kind: str, size: int) -> dict[str, Any]:
    name = f"{kind}-{size}-{_key()}"
    place = plan.place(plan.home / name, name.replace("-", "_"))
    folder = Path(place["dir"])
    if not (folder / "built").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        plan.say(f"building {kind} of {size:,}")
        call("bench.spark_tables:build", timeout=3600, kind=kind, place=place, size=size)
        (folder / "built").touch()
    return place


def _key() -> str:
    files = [Path(module.__file__) for module in (synthetic, ours)] + [Path(__file__)]
    files += sorted((ROOT / "src/deltasql/metastore/sql/migrations").rglob("*.sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def build(kind: str, place: dict[str, Any], size: int) -> dict[str, Any]:
    """In a child: fill the table `t` of the place, and bring its log up to date."""
    location = f"{place['dir']}/table"
    if kind == "spark-rows":
        _write_rows(place, location, size)
    else:
        _name_files(place, Path(location), size)
    with ours.connect(place, "sqlite", "worker") as catalog:
        catalog.mirror.run_once()
        ours.wait_mirrored(catalog)
        catalog.mirror.checkpoint("t")
    return {}


def _write_rows(place: dict[str, Any], location: str, rows: int) -> None:
    import deltasql.spark

    spark = spark_session.start("deltasql")
    frame = spark.range(0, rows, 1, _FILES).selectExpr(*ROWS)
    deltasql.spark.write(frame, place["sqlite_uri"], "t", location=location)


def _name_files(place: dict[str, Any], root: Path, n: int) -> None:
    with ours.connect(place, "sqlite", "off") as catalog:
        table = catalog.create_table(
            "t", location=str(root), schema=synthetic.SCHEMA, partition_by=["date"]
        )
        needed = range(n // 2, n // 2 + NEEDED)
        for chunk in synthetic.chunks(n, _ADDS):
            adds = [synthetic.add(i, n) for i in chunk]
            for i in sorted(set(needed) & set(chunk)):
                adds[i - chunk.start]["add"]["size"] = _write_file(root, i, n)
            table.commit(adds)


def _write_file(root: Path, i: int, n: int) -> int:
    """Write a file that holds what its statistics say, and return its size."""
    import datetime as dt

    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = range(i * synthetic.ROWS, (i + 1) * synthetic.ROWS)
    low, _, _ = synthetic.bounds(i, n)
    at = dt.datetime.fromisoformat(low["ts"])
    rows = {
        "id": pa.array(ids, pa.int64()),
        "ts": pa.array([at] * len(ids), pa.timestamp("us", "UTC")),
        "user_id": [f"user-5{number}" for number in ids],
        "amount": [500.0 + number % 100 for number in ids],
        "note": ["m"] * len(ids),
    }
    file = root / synthetic.path(i, n)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows), file)
    return file.stat().st_size


def copy(source: dict[str, Any], place: dict[str, Any]) -> None:
    """Make a table of its own of the same rows; data files are linked, because none is changed."""
    from deltasql.api.write.operations import live_adds

    with (
        ours.connect(source, "sqlite", "off") as old,
        ours.connect(place, "sqlite", "inline") as new,
    ):
        snapshot = old.table("t").snapshot()
        adds = list(live_adds(snapshot))
        root = Path(place["dir"], "table")
        for add in adds:
            target = root / add.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(Path(source["dir"], "table", add.path))
        new.create_table("t", location=str(root), schema=snapshot.schema).commit(adds)
