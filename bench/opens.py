"""Cases 3 and 4, measured in a child: open a table and list its files, all or those of a filter.

Three times are taken: `seconds` from a connection to the answer (the table is opened anew), `cold`
with the connection to the database as well, `held` for the same question on what is already open.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import synthetic
from bench.child import CaseFailedError
from bench.peers import duck, ducklake_attach, iceberg_catalog
from deltasql.testing import inspect

_HELD = 5
Answer = dict[str, Any]
Question = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], int]]


def measure(kind: str, place: dict[str, Any], tiny: dict[str, Any], n: int, what: str) -> Answer:
    """In a child: ask the tiny table untimed, then time the question on the big one.

    Libraries import on first use (pyarrow takes in pandas, a second), and that must not count for
    or against anybody: what the tiny table did not load, nobody may load while the clock runs.
    """
    name, _, backend = kind.partition("-")
    question = _QUESTIONS[name]
    _timed(*question(tiny, TINY, what, backend))
    loaded = set(sys.modules)
    answer = _timed(*question(place, n, what, backend), is_held=what != "list")
    late = sorted(set(sys.modules) - loaded)
    if late:
        raise CaseFailedError(f"imported inside the timed part: {', '.join(late[:5])}")
    return answer


def _timed(
    connect: Callable[[], Any],
    open_: Callable[[Any], Any],
    ask: Callable[[Any], int],
    *,
    is_held: bool = False,
) -> Answer:
    started = time.perf_counter()
    connection = connect()
    connected = time.perf_counter()
    opened = open_(connection)
    files = ask(opened)
    ended = time.perf_counter()
    answer: Answer = {"seconds": ended - connected, "cold": ended - started, "files": files}
    if is_held:
        times = []
        for _ in range(_HELD):
            started = time.perf_counter()
            ask(opened)
            times.append(time.perf_counter() - started)
        answer["held"] = statistics.median(times)
    return answer


def _deltasql(place: dict[str, Any], n: int, what: str, backend: str) -> Question:
    import pyarrow as pa

    import deltasql

    uri = place["pg_uri" if backend == "postgres" else "sqlite_uri"]
    low, high = synthetic.id_range(n)
    where = {
        "list": None,
        "partition": f"date = '{synthetic.ONE_DAY}'",
        "range": f"id >= {low} and id <= {high}",
    }[what]

    def ask(table: Any) -> int:
        return table.snapshot(where=where).files().num_rows

    def connect() -> Any:
        catalog = deltasql.connect(uri)
        # On PostgreSQL Arrow has a connection of its own; it belongs to connecting.
        one = pa.schema({"n": pa.int64()})
        inspect(catalog).database.arrow("select cast(1 as bigint) as n", {}, one)
        return catalog

    return connect, lambda catalog: catalog.table("t"), ask


def _deltalake(place: dict[str, Any], n: int, what: str, _: str) -> Question:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    low, high = synthetic.id_range(n)

    def ask(table: Any) -> int:
        if what == "partition":
            return len(table.file_uris(partition_filters=[("date", "=", synthetic.ONE_DAY)]))
        files = table.get_add_actions(flatten=True)
        if what == "list":
            return files.num_rows
        arrow = pa.table(files)
        ends = pc.greater_equal(arrow["max.id"], low), pc.less_equal(arrow["min.id"], high)
        return arrow.filter(pc.and_(*ends)).num_rows

    return lambda: None, lambda _: DeltaTable(f"{place['dir']}/table"), ask


def _ducklake(place: dict[str, Any], n: int, what: str, backend: str) -> Question:
    """The data files do not exist: a scan has planned when it fails on the first of them."""
    import duckdb

    connection = duck(backend)
    low, high = synthetic.id_range(n)
    query = {
        "list": "SELECT count(*) FROM ducklake_list_files('l', 't')",
        "partition": f"SELECT * FROM l.t WHERE date = DATE '{synthetic.ONE_DAY}'",
        "range": f"SELECT * FROM l.t WHERE id BETWEEN {low} AND {high}",
    }[what]

    def ask(_: Any) -> int:
        try:
            return connection.execute(query).fetchall()[0][0]
        except duckdb.IOException as error:
            if synthetic.ONE_DAY not in str(error):  # it must have pruned to the right files
                raise
            return -1

    return lambda: ducklake_attach(connection, backend, place), lambda opened: opened, ask


def _pyiceberg(place: dict[str, Any], n: int, what: str, _: str) -> Question:
    from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual

    low, high = synthetic.id_range(n)
    ends = And(GreaterThanOrEqual("id", low), LessThanOrEqual("id", high))
    chosen = {"list": None, "partition": EqualTo("date", synthetic.ONE_DAY), "range": ends}[what]

    def ask(table: Any) -> int:
        scan = table.scan() if chosen is None else table.scan(row_filter=chosen)
        return sum(1 for _ in scan.plan_files())

    return lambda: iceberg_catalog(place["dir"]), lambda catalog: catalog.load_table("n.t"), ask


TINY = 1_000
_QUESTIONS = {
    "deltasql": _deltasql,
    "deltalake": _deltalake,
    "ducklake": _ducklake,
    "pyiceberg": _pyiceberg,
}
