"""A catalog that the benchmarks fill inside SQL is one that commits could have made."""

import json

import pyarrow as pa
import pytest
from bench import fill, synthetic

import deltasql
from deltasql.metastore.stats_index import index_rows
from deltasql.protocol.actions import file_hashes
from deltasql.protocol.stats.parse import parse_stats
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import check_invariants, inspect

pytestmark = pytest.mark.req("R95")
WORKER = Settings(mirror=MirrorSettings(mode="worker"))
FILES = 200
TABLES = [fill.Filled(f"t{number}", FILES, adds=20, per_partition=20) for number in range(3)]
FILTERS = {
    "date = '2022-01-03'": lambda low, high, day: day == "2022-01-03",
    "id >= 50000 and id <= 60000": lambda low, high, day: (
        high["id"] >= 50_000 and low["id"] <= 60_000
    ),
    "amount >= 940 and amount <= 2000": lambda low, high, day: high["amount"] >= 940,
    "user_id < 'user-00004'": lambda low, high, day: low["user_id"] < "user-00004",
    "ts >= '2022-01-09T12:00:00Z'": lambda low, high, day: high["ts"] >= "2022-01-09T12:00:00Z",
    "id = 7": lambda low, high, day: low["id"] <= 7 <= high["id"],
    "amount >= 2000 and amount <= 3000": lambda low, high, day: False,
}


@pytest.fixture
def filled(request, catalog_uri, tmp_path):
    place = {"dir": str(tmp_path), "sqlite_uri": catalog_uri}
    backend = catalog_uri.removeprefix("deltasql://").split("/")[0]
    if backend == "postgres":
        server = request.getfixturevalue("postgres_server")
        name = catalog_uri.split("/")[3]
        place |= {"pg_uri": catalog_uri, "pg_dsn": server.dsn(name)}
    fill.fill(place, backend, TABLES, is_complete=True)
    with deltasql.connect(catalog_uri, settings=WORKER) as opened:
        yield opened


def listed(table, version=None, where=None):
    rows = table.snapshot(version).files(["path", "stats", "partition_values"], where=where)
    return {row["path"]: row for row in rows.to_pylist()}


def matches(row, decide):
    stats, values = json.loads(row["stats"]), json.loads(row["partition_values"])
    return decide(stats["minValues"], stats["maxValues"], values["date"])


def stored(table, name):
    """The rows of a table's files, live or removed."""
    database = inspect(table).database
    is_sqlite = database.dialect.name == "sqlite"
    key = "lower(hex(file_key))" if is_sqlite else "replace(file_key::text, '-', '')"
    query = f"""select file_id, path, stats, {key} as file_key from {name} f where f.table_key =
        (select t.table_key from dl_tables t where t.table_id = :table_id)"""
    text = pa.string()
    schema = pa.schema(
        [("file_id", pa.int64()), ("path", text), ("stats", text), ("file_key", text)]
    )
    return database.arrow(query, {"table_id": table.table_id}, schema).to_pylist()


def index_of(table, kind, columns):
    """The rows of a table in the index of one kind."""
    types = {"reach": pa.int64(), "file_id": pa.int64(), "stats_key": pa.int64()}
    bound = pa.float64() if kind == "num" else pa.string()
    schema = pa.schema([(name, types.get(name, bound)) for name in columns])
    query = f"""select {", ".join(columns)} from dl_stats_{kind} where stats_key in (
        select c.stats_key from dl_stats_columns c
        join dl_tables t on t.table_key = c.table_key where t.table_id = :table_id
    )"""
    found = inspect(table).database.arrow(query, {"table_id": table.table_id}, schema)
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("version", [None, 7])
def test_a_plan_is_what_a_filter_over_all_files_gives(filled, version):
    table = filled.table("t1")
    whole = listed(table, version)
    assert version or len(whole) == FILES
    for where, decide in FILTERS.items():
        expected = {path for path, row in whole.items() if matches(row, decide)}
        assert set(listed(table, version, where)) == expected, where


def test_the_index_and_the_keys_are_those_that_commits_write(filled):
    table = filled.table("t2")
    indexed = table.snapshot().definition.indexed
    assert [column.name for column, _ in indexed] == ["id", "ts", "user_id", "amount"]
    files = [file for name in ("dl_files", "dl_removed_files") for file in stored(table, name)]
    assert len(files) == TABLES[2].ever
    ids = [file["file_id"] for file in files]
    rows = index_rows([parse_stats(file["stats"]) for file in files], ids, indexed)
    for kind, columns in (("num", rows.num), ("text", rows.text)):
        found = index_of(table, kind, columns)
        assert found == sorted(zip(*columns.values(), strict=True))
    for file in files:
        assert file["file_key"] == file_hashes(file["path"], "")[0].hex()


def test_it_takes_commits_and_its_guarantees_hold(filled):
    table = filled.table("t0")
    gone = min(listed(table))
    remove = {"path": gone, "dataChange": True, "deletionTimestamp": 1}
    table.commit([{"remove": remove}, synthetic.add(9_999, 10_000)])
    assert gone not in listed(table)
    filled.mirror.run_once()
    filled.mirror.checkpoint("t0")
    for each in TABLES:
        check_invariants(filled, each.name)
