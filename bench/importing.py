"""What the cases of the import run in children: an import, opening a log, reading and folding it.

Each does the same with a tiny log first, untimed: libraries, connections, Spark and its workers are
there when the clock starts.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import ours
from bench.child import CaseFailedError
from bench.threads import server_cpu
from deltasql.testing import inspect

VALIDATING, INDEXING = "Validating", "Indexing statistics"
_LOOK_EVERY_S = 0.25
_KIB = 1024


def load(
    place: dict[str, Any], backend: str, engine: str, tiny: str, log: str
) -> Iterator[dict[str, Any]]:
    """In a child: import a log with an engine, `local` or a master of Spark."""
    with ours.connect(place, backend, "off") as catalog:
        ours.warm_arrow(catalog)
        with _engine(engine) as chosen:
            _import(catalog, chosen, tiny, "tiny")
            loaded = set(sys.modules)
            yield {}
            with _tree_memory() as peak:
                before, server = os.times(), server_cpu(place, backend)
                begun = time.perf_counter()
                steps = _import(catalog, chosen, log, "t")
                seconds = time.perf_counter() - begun
                after, server = os.times(), server_cpu(place, backend) - server
            _require_loaded(loaded)
        live = catalog.table("t").snapshot().files(["path"]).num_rows
    size = {"mb": _database_mb(place, backend), "tree_mb": peak[0], "files": live}
    parts = {
        "driver": sum(after[:2]) - sum(before[:2]),
        "readers": sum(after[2:4]) - sum(before[2:4]),
        "server": server,
    }
    cpu = sum(parts.values())
    yield {"seconds": seconds, "steps": steps, "cpu": cpu, "cpu_parts": parts, **size}


def opened(tiny: str, log: str) -> Iterator[dict[str, Any]]:
    """In a child: let deltalake open a log, and ask for its files when the clock has stopped."""
    from deltalake import DeltaTable

    DeltaTable(tiny).file_uris()
    yield {}
    started = time.perf_counter()
    table = DeltaTable(log)
    seconds = time.perf_counter() - started
    yield {"seconds": seconds, "files": len(table.file_uris())}


def parsed(place: dict[str, Any], engine: str, tiny: str, log: str) -> Iterator[dict[str, Any]]:
    """In a child: read and fold a log on an engine, and load nothing."""
    with ours.connect(place, "sqlite", "off"), _engine(engine) as chosen:
        _parse(chosen, tiny)
        yield {}
        started = time.perf_counter()
        with _tree_memory() as peak:
            versions = _parse(chosen, log)
        yield {
            "seconds": time.perf_counter() - started,
            "versions": versions,
            "tree_mb": peak[0],
        }


def bare(place: dict[str, Any], backend: str, tiny: str, log: str) -> Iterator[dict[str, Any]]:
    """In a child: write the files' rows of a log, parsed before, to a bare table with one index."""
    import pyarrow as pa

    write = _to_postgres if backend == "postgres" else _to_sqlite
    windows = {source: [window.adds for window in _windows(source)] for source in (tiny, log)}
    write(place, pa.concat_tables(windows[tiny]), "tiny")
    rows = pa.concat_tables(windows[log])
    yield {}
    started = time.perf_counter()
    write(place, rows, "bare")
    yield {"seconds": time.perf_counter() - started}


def _to_sqlite(place: dict[str, Any], rows: Any, name: str) -> None:
    from adbc_driver_sqlite import dbapi

    with dbapi.connect(str(Path(place["dir"], f"{name}.db")), autocommit=True) as connection:
        cursor = connection.cursor()
        for pragma in ("journal_mode = wal", "synchronous = full", "cache_size = -200000"):
            cursor.execute(f"pragma {pragma}").fetchall()
        cursor.execute("begin")
        cursor.adbc_ingest(name, rows, mode="create")
        cursor.execute(f"create unique index {name}_id on {name} (path, dv_id, added_version)")
        cursor.execute("commit")
        cursor.close()


def _to_postgres(place: dict[str, Any], rows: Any, name: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(place["pg_dsn"]) as connection:
        cursor = connection.cursor()
        cursor.adbc_ingest(name, rows, mode="create")
        cursor.execute(f"create unique index {name}_id on {name} (path, dv_id, added_version)")
        connection.commit()
        cursor.close()


def _engine(engine: str) -> Any:
    from deltasql.imports.engines.local import choose_engine

    if engine == "local":
        return choose_engine("local")
    return choose_engine("spark", master=engine)


def _import(catalog: Any, chosen: Any, log: str, name: str) -> dict[str, float]:
    """Import a log and return the seconds of each step."""
    from deltasql.imports.job import ImportOptions, TableImport

    steps: dict[str, float] = {}
    last = ["Loading", time.perf_counter()]

    def change(step: str) -> None:
        now = time.perf_counter()
        steps[last[0]] = steps.get(last[0], 0.0) + now - last[1]
        last[:] = [step, now]

    def observe(progress: Any) -> None:
        change(progress.step if progress.step in {VALIDATING, INDEXING} else "Loading")

    call = TableImport(
        inspect(catalog).connection, log, name, ImportOptions(), chosen.engine, observe
    )
    done = call.run()
    change("")
    if done.validation is None or not done.validation.is_equal:
        raise CaseFailedError("the import differs from its log")
    return steps


def _parse(chosen: Any, log: str) -> int:
    return sum(rows.last - rows.first + 1 for rows in _windows(log, chosen.engine))


def _windows(log: str, engine: Any = None) -> Iterator[Any]:
    """Yield what an engine reads of a log; the local one unless another is given."""
    from deltasql.imports.engines.local import LocalEngine
    from deltasql.imports.plan.import_plan import read_plan
    from deltasql.imports.read.tasks import LogReader, cut_tasks
    from deltasql.storage.local import LocalStore
    from deltasql.storage.resolve import StoreOpener

    commits = read_plan(LocalStore(log)).commits
    reader = LogReader(StoreOpener(log, {}, {}))
    yield from (engine or LocalEngine()).run(reader, cut_tasks(commits))


def _require_loaded(before: set[str]) -> None:
    late = sorted(set(sys.modules) - before)
    if late:
        raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")


def _database_mb(place: dict[str, Any], backend: str) -> float:
    if backend == "sqlite":
        return sum(file.stat().st_size for file in Path(place["dir"]).glob("catalog.db*")) / 1e6
    import psycopg

    with psycopg.connect(place["pg_dsn"]) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    return row[0] / 1e6 if row else 0.0


@contextmanager
def _tree_memory() -> Iterator[list[int]]:
    """Give the largest memory, in MB, that this process and all below it had at a time."""
    peak, stop = [0], threading.Event()

    def look() -> None:
        while not stop.is_set():
            peak[0] = max(peak[0], _tree_mb())
            stop.wait(_LOOK_EVERY_S)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def _tree_mb() -> int:
    waiting, total = ["self"], 0
    while waiting:
        place = Path("/proc", waiting.pop())
        try:
            lines = (place / "status").read_text(encoding="utf-8").splitlines()
            for task in (place / "task").iterdir():
                waiting += (task / "children").read_text(encoding="utf-8").split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        found = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
        total += int(found[0]) if found else 0
    return total // _KIB
