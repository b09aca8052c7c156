"""deltasql as the cases use it: opened by place and backend, mirrored, checked; run in a child."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.child import CaseFailedError
from deltasql.testing import inspect

BACKENDS = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_NEVER = str(10**9 - 1)
_LOOK_EVERY_S = 0.05


def connect(place: dict[str, Any], backend: str, mode: str, **more: Any) -> Any:
    """Open the catalog of a place; `more` goes to deltasql.connect."""
    return _connect(place, backend, {"DELTASQL_MIRROR_MODE": mode}, **more)


def _connect(place: dict[str, Any], backend: str, env: dict[str, str], **more: Any) -> Any:
    import deltasql
    from deltasql.settings import Settings

    uri = place["pg_uri"] if backend == "postgres" else place["sqlite_uri"]
    catalog = deltasql.connect(uri, settings=Settings.load(env, Path(place["dir"])), **more)
    catalog.create_if_missing()
    return catalog


class MirroredSink:
    """Notes when each version was found to be in its log (name, version, milliseconds)."""

    def __init__(self) -> None:
        self.mirrored: list[tuple[str, int, float]] = []
        self.checkpoints = 0

    def __call__(self, event: Any) -> None:
        if event.name == "version_mirrored":
            self.mirrored.append((event.table, event.version, time.time() * 1000))
        self.checkpoints += event.name == "checkpoint_written"


def warm_arrow(catalog: Any) -> None:
    """Open the connection that Arrow has for itself on PostgreSQL: it belongs to connecting."""
    import pyarrow as pa

    one = pa.schema({"n": pa.int64()})
    inspect(catalog).database.arrow("select cast(1 as bigint) as n", {}, one)


def behind(catalog: Any) -> int:
    """Return how many versions of all tables are not in their logs."""
    return sum(table.version - table.mirrored_through for table in catalog.tables())


def wait_mirrored(catalog: Any, worker: threading.Thread | None = None) -> float:
    """Wait until nothing is behind and return the seconds; fails where its worker has died."""
    started = time.perf_counter()
    while behind(catalog):
        if worker is not None and not worker.is_alive():
            raise CaseFailedError("the worker has ended with versions left")
        time.sleep(_LOOK_EVERY_S)
    return time.perf_counter() - started


def mirror_all(place: dict[str, Any], backend: str) -> dict[str, Any]:
    """In a child: bring the logs of all tables up to date and write no checkpoint."""
    env = {"DELTASQL_MIRROR_MODE": "worker", "DELTASQL_MIRROR_CHECKPOINT_INTERVAL": _NEVER}
    with _connect(place, backend, env) as catalog:
        swept = catalog.mirror.run_once()
        if swept.failed or behind(catalog):
            raise CaseFailedError(f"{swept.failed} tables could not be mirrored")
        return {"mirrored": swept.mirrored}


def check(place: dict[str, Any], backend: str, names: list[str]) -> dict[str, Any]:
    """In a child: every log is complete, and those of the named tables are equal to SQL."""
    with connect(place, backend, "off") as catalog:
        left = behind(catalog)
        found = {name: len(catalog.mirror.verify(name)) for name in names}
        if left or any(found.values()):
            raise CaseFailedError(f"{left} versions are not mirrored, differences: {found}")
        return {"versions": sum(table.version + 1 for table in catalog.tables())}


def work(
    place: dict[str, Any], backend: str, stores: dict[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """In a child: serve as `deltasql mirror run` does until the input ends and nothing is behind.

    Tells when each version was mirrored, what was behind when the input ended, and how long that
    took. `stores` are the arguments of `bench.switch:Switches` where stores may be down.
    """
    sink = MirroredSink()
    with connect(place, backend, "worker", sink=sink, **wrapped(stores)) as catalog:
        stop = threading.Event()
        worker = threading.Thread(target=catalog.mirror.run, args=(stop,))
        worker.start()
        try:
            yield {}
            sys.stdin.read()
            left = behind(catalog)
            seconds = wait_mirrored(catalog, worker)
        finally:
            stop.set()
            worker.join()
    told = {"mirrored": sink.mirrored, "checkpoints": sink.checkpoints}
    yield told | {"left": left, "drain": seconds}


def wrapped(stores: dict[str, Any] | None) -> dict[str, Any]:
    """Return what deltasql.connect takes to have its stores switched."""
    if stores is None:
        return {}
    from bench.switch import Switches

    return {"wrap_store": Switches(**stores)}
