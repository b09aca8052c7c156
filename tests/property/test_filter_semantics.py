"""A filter has one meaning, Spark's: NaN equals itself and is greater than every number."""

import random

import duckdb
import pyarrow as pa
import pytest

import deltasql
from builders import NO_MIRROR
from deltasql.protocol.actions import Add
from deltasql.protocol.predicate import parse_predicate, to_arrow
from exact_answers import evaluate
from random_filters import ARROW, SCHEMA, random_filter, random_rows, values_of

pytestmark = pytest.mark.req("R40")
SEED, FILTERS, ROWS = 20261118, 400, 120


def _ours(table: pa.Table, text: str) -> list[int]:
    """The rows that Arrow keeps, which are those that exact evaluation keeps."""
    predicate = parse_predicate(text, SCHEMA)
    numbered = table.append_column("row", pa.array(range(table.num_rows)))
    kept = numbered.filter(to_arrow(predicate))["row"].to_pylist()
    exact = [n for n, row in enumerate(values_of(table)) if evaluate(predicate, row) is True]
    assert kept == exact, text
    return kept


def test_filters_keep_the_rows_that_duckdb_keeps():
    rng, table = random.Random(SEED), random_rows(SEED, ROWS)
    texts = [random_filter(rng) for _ in range(FILTERS)]
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        numbered = table.append_column("row", pa.array(range(table.num_rows)))
        connection.register("rows", numbered)
        connection.execute("create table t as select * from rows")  # Arrow would filter views
        for text in texts:
            found = connection.execute(f"select row from t where {text} order by row").fetchall()
            assert _ours(table, text) == [row for (row,) in found], f"seed {SEED}: {text}"


@pytest.fixture
def lake(tmp_path):
    """Files of ten rows each, written by deltalake, whose statistics do not tell of NaN."""
    import deltalake

    table = random_rows(SEED, ROWS).drop_columns(["n"])
    for start in range(0, ROWS, 10):
        deltalake.write_deltalake(str(tmp_path / "t"), table.slice(start, 10), mode="append")
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        catalog.import_table(str(tmp_path / "t"), name="t", engine="local")
        yield catalog.table("t"), table


def test_no_scan_loses_nan_to_statistics_that_do_not_tell_of_it(lake):
    found, table = lake
    rng = random.Random(SEED)
    texts = [text for text in (random_filter(rng) for _ in range(150)) if "n " not in f" {text}"]
    assert len(texts) > 40
    for text in [*texts, "x > 1e35", "not (x <= 1e35)", "x != 1.5", "x >= 'NaN'", "isnan(x)"]:
        expected = table.filter(to_arrow(parse_predicate(text, SCHEMA)))
        kept = found.scan(where=text).to_arrow()
        assert _texts(kept) == _texts(expected), text


def _texts(table: pa.Table) -> list[str]:
    names = [name for name in ARROW.names if name in table.column_names]
    return sorted(str(row) for row in table.select(names).to_pylist())


def test_partitions_of_nan_are_deleted_by_the_filters_that_keep_their_rows(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    rows = pa.table({"id": range(4), "x": [float("nan"), 1.0, float("-inf"), None]}, schema)
    for number, (where, left) in enumerate(
        [
            ("x > 0", [2, 3]),
            ("not (x > 0)", [0, 1, 3]),
            ("x = 'NaN'", [1, 2, 3]),
            ("x <= 'Infinity'", [0, 3]),
            ("isnan(x)", [1, 2, 3]),
        ]
    ):
        with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
            place = str(tmp_path / str(abs(hash(where))))
            table = catalog.create_table(
                f"t{number}", location=place, schema=schema, partition_by=["x"]
            )
            table.append(rows)
            table.delete(where)
            assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == left, where


@pytest.mark.parametrize(
    ("where", "skipped"),
    [
        ("x < 5", True),
        ("x between 1 and 5", True),
        ("x > 50 and x <= 'Infinity'", True),
        ("x > 50 and x != 'NaN'", True),
        ("x > 50 and not isnan(x)", True),
        ("x > 50", False),
    ],
)
def test_files_are_skipped_by_floats_where_nan_cannot_match(tmp_path, where, skipped):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db", settings=NO_MIRROR) as catalog:
        schema = pa.schema([("x", pa.float64())])
        table = catalog.create_table("t", location=str(tmp_path / "t"), schema=schema)
        stats = '{"numRecords":1,"minValues":{"x":10},"maxValues":{"x":20},"nullCount":{"x":0}}'
        table.commit(
            [
                Add(
                    path="a.parquet",
                    partition_values={},
                    size=1,
                    modification_time=1,
                    data_change=True,
                    stats=stats,
                )
            ]
        )
        assert (table.snapshot().files(["path"], where=where).num_rows == 0) is skipped
