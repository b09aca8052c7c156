"""The big tables, built once per size and kept: key = what they hold and the catalog's schema."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import backlog, bulk, ours, synthetic
from bench.child import call
from bench.peers import duck, ducklake_attach, iceberg_catalog, iceberg_file, iceberg_schema
from bench.results import Plan
from bench.server import ROOT

_ADDS = 5_000
_CHECKPOINT = 10
KINDS = (
    "deltalake",
    "deltasql-sqlite",
    "deltasql-postgres",
    "ducklake-sqlite",
    "ducklake-postgres",
)


def place_of(plan: Plan, kind: str, n: int) -> dict[str, Any]:
    """Return where the table of a kind and size is."""
    name = f"{kind}-{n}-{_key()}"
    return plan.place(plan.home / name, name.replace("-", "_"))


def ensure(plan: Plan, kind: str, n: int) -> None:
    """Build the table of a kind and size, unless a run before has."""
    place = place_of(plan, kind, n)
    folder = Path(place["dir"])
    built = folder / "built"
    in_server = kind.endswith("postgres")
    if built.exists() and (not in_server or plan.has_database(place["name"])):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if in_server:
        plan.make_database(place["name"])
    plan.say(f"building {n:,} files for {kind}")
    call("bench.tables:build", timeout=3600, kind=kind, place=place, n=n)
    built.touch()


def _key() -> str:
    """Change with what the tables hold, so that nothing stale is measured."""
    files = [Path(module.__file__) for module in (synthetic, backlog, bulk)] + [Path(__file__)]
    files += sorted((ROOT / "src/deltasql/metastore/sql/migrations").rglob("*.sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def build(kind: str, place: dict[str, Any], n: int) -> dict[str, Any]:
    """In a child: fill the table."""
    name, _, backend = kind.partition("-")
    if name == "deltasql":
        _build_deltasql(place, backend, n)
    elif name == "ducklake":
        _build_ducklake(place, backend, n)
    elif name == "pyiceberg":
        _build_iceberg(place, n)
    elif name == "bulk":
        bulk.build(place, n)
    elif name.startswith("backlog"):  # backlog20-sqlite: 20 tables with n commits each
        backlog.build(place, backend, int(name.removeprefix("backlog")), n)
    else:
        _build_log(Path(place["dir"]) / "table/_delta_log", n)
    return {}


def _build_deltasql(place: dict[str, Any], backend: str, n: int) -> None:
    with ours.connect(place, backend, "off") as catalog:
        location = f"{place['dir']}/table"
        table = catalog.create_table(
            "t", location=location, schema=synthetic.SCHEMA, partition_by=["date"]
        )
        for chunk in synthetic.chunks(n, _ADDS):
            table.commit([synthetic.add(i, n) for i in chunk])
    if backend == "postgres":
        _vacuum(place["pg_dsn"])


def _vacuum(dsn: str) -> None:
    """Do at once what autovacuum does within a minute or so."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def _build_log(log: Path, n: int) -> None:
    """Write a Delta log: a checkpoint with all files and one commit behind it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    log.mkdir(parents=True)
    info = {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}
    for version in (_CHECKPOINT, _CHECKPOINT + 1):
        (log / f"{version:020d}.json").write_text(json.dumps(info) + "\n")
    schema = _checkpoint_schema()
    with pq.ParquetWriter(log / f"{_CHECKPOINT:020d}.checkpoint.parquet", schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(_head(), schema=schema))
        for chunk in synthetic.chunks(n, 50_000):
            rows = [{"add": _pairs(synthetic.add(i, n)["add"])} for i in chunk]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    last = {"version": _CHECKPOINT, "size": n + 2}
    (log / "_last_checkpoint").write_text(json.dumps(last))


def _pairs(add: dict[str, Any]) -> dict[str, Any]:
    return add | {"partitionValues": list(add["partitionValues"].items())}


def _head() -> list[dict[str, Any]]:
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": []},
        "schemaString": synthetic.SCHEMA,
        "partitionColumns": ["date"],
        "configuration": [],
        "createdTime": 1_700_000_000_000,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _checkpoint_schema() -> Any:
    import pyarrow as pa

    text, long, flag = pa.string(), pa.int64(), pa.bool_()
    values = pa.map_(text, text)
    form = pa.struct([("provider", text), ("options", values)])
    add = [("path", text), ("partitionValues", values), ("size", long)]
    add += [("modificationTime", long), ("dataChange", flag), ("tags", values), ("stats", text)]
    remove = [("path", text), ("deletionTimestamp", long), ("dataChange", flag)]
    metadata = [("id", text), ("name", text), ("description", text), ("format", form)]
    metadata += [("schemaString", text), ("partitionColumns", pa.list_(text))]
    metadata += [("configuration", values), ("createdTime", long)]
    protocol = [("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]
    txn = [("appId", text), ("version", long), ("lastUpdated", long)]
    kinds = {"txn": txn, "add": add, "remove": remove, "metaData": metadata, "protocol": protocol}
    return pa.schema([(name, pa.struct(fields)) for name, fields in kinds.items()])


def _build_iceberg(place: dict[str, Any], n: int) -> None:
    catalog = iceberg_catalog(place["dir"])
    catalog.create_namespace("n")
    schema, spec = iceberg_schema()
    table = catalog.create_table("n.t", schema, partition_spec=spec)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for i in range(n):
            append.append_data_file(iceberg_file(i, n, place["dir"]))


def _build_ducklake(place: dict[str, Any], backend: str, n: int) -> None:
    """Make a table of one row by DuckLake itself, then put the other files' rows beside it."""
    connection = duck(backend)
    ducklake_attach(connection, backend, place)
    connection.execute(
        "CREATE TABLE l.t(id BIGINT, ts TIMESTAMP, user_id VARCHAR, amount DOUBLE, "
        "note VARCHAR, date DATE)"
    )
    connection.execute("ALTER TABLE l.t SET PARTITIONED BY (date)")
    first = "1, TIMESTAMP '2022-01-01', 'u', 1.5, 'n', DATE '2022-01-01'"
    connection.execute(f"INSERT INTO l.t VALUES ({first})")
    connection.close()
    last = synthetic.DAYS[-1]
    rows = n * synthetic.ROWS
    ends = {1: str(rows), 2: f"{last} 23:59:59.999", 6: last}
    totals = f"record_count = {rows}, next_row_id = {rows}, file_size_bytes = 1000000000"
    updates = [
        f"update ducklake_snapshot set next_file_id = {n + 1} where snapshot_id = 3",
        f"update ducklake_table_stats set {totals}",
    ]
    for column, end in ends.items():
        change = f"set max_value = '{end}' where column_id = {column}"
        updates.append(f"update ducklake_table_column_stats {change}")
    if backend == "sqlite":
        _fill_sqlite(Path(place["dir"]) / "ducklake.sqlite", n, updates)
    else:
        _fill_postgres(place["pg_dsn"], n, updates)


def _ducklake_rows(n: int) -> Iterator[tuple[str, int, Iterator[tuple[Any, ...]]]]:
    yield "ducklake_data_file", 16, (_data_file(i, n) for i in range(1, n))
    stats = (row for i in range(1, n) for row in _column_stats(i, n))
    yield "ducklake_file_column_stats", 10, stats
    days = ((i, 1, 0, synthetic.day(i, n)) for i in range(1, n))
    yield "ducklake_file_partition_value", 4, days


def _data_file(i: int, n: int) -> tuple[Any, ...]:
    where = (synthetic.path(i, n), 1, "parquet", 1000, synthetic.size(i), 573, i * 1000, 2)
    return (i, 1, 3, None, None, *where, None, None, None)


def _column_stats(i: int, n: int) -> Iterator[tuple[Any, ...]]:
    low, high, nulls = synthetic.bounds(i, n)
    for number, name in enumerate(synthetic.INDEXED, 1):
        ends = [str(end[name]) for end in (low, high)]
        if name == "ts":
            ends = [end.replace("T", " ").removesuffix("Z") for end in ends]
        has_nan = 0 if name == "amount" else None
        yield (i, 1, number, 1000, 1000, nulls[name], *ends, has_nan, None)
    day = synthetic.day(i, n)
    yield (i, 1, 6, 29, 1000, 0, day, day, None, None)


def _fill_sqlite(file: Path, n: int, updates: list[str]) -> None:
    import sqlite3

    connection = sqlite3.connect(file)
    connection.execute("pragma synchronous = off")
    for table, width, rows in _ducklake_rows(n):
        connection.executemany(f"insert into {table} values ({','.join('?' * width)})", rows)
    for update in updates:
        connection.execute(update)
    connection.commit()
    connection.execute("analyze")
    connection.close()


def _fill_postgres(dsn: str, n: int, updates: list[str]) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        for table, _, rows in _ducklake_rows(n):
            with connection.cursor().copy(f"copy {table} from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
        for update in updates:
            connection.execute(update)
    _vacuum(dsn)
