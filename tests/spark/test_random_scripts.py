"""Random operations through deltasql leave what they leave on plain Delta tables."""

import random
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
import random_scripts
from deltasql.testing.invariants import check_invariants
from readers import read_deltalake, read_deltasql, read_duckdb, sort_rows

pytestmark = [
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("needs_delta"),
    pytest.mark.req("R26"),
]
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.int64())])
VECTORS = "delta.enableDeletionVectors"


def a_pair(catalog, tmp_path, name, vectors):
    """Make a table of Delta's own and one of ours; return where they are."""
    plain, told = str(tmp_path / f"plain {name}"), str(vectors).lower()
    delta_spark.run(
        f"CREATE TABLE delta.`{plain}` ({random_scripts.COLUMNS}) USING delta "
        f"PARTITIONED BY (day) TBLPROPERTIES ('{VECTORS}' = '{told}')"
    )
    table = catalog.create_table(
        name,
        location=str(tmp_path / f"ours {name}"),
        schema=SCHEMA,
        partition_by=["day"],
        properties={VECTORS: told},
    )
    return plain, unquote(table.location.removeprefix("file://"))


def numbers(verify, soak):
    """A few seeds are verified, many are soaked."""
    return [
        *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(verify)),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(verify, soak)),
    ]


def run_script(uri, tmp_path, seed):
    chance = random.Random(seed)
    steps = random_scripts.script(chance, 3 if seed < 20 else chance.randint(3, 8))
    with deltasql.connect(uri) as catalog:
        plain, ours = a_pair(catalog, tmp_path, "t", chance.random() < 0.5)
        for step in steps:
            refused = random_scripts.refuses(partial(random_scripts.run_plain, step, plain))
            run_ours = partial(random_scripts.run_ours, step, uri, "t")
            assert random_scripts.refuses(run_ours) == refused, (step, steps)
        table = catalog.table("t")
        catalog.mirror.run_once()
        told = [entry["operation"] for entry in delta_spark.history(plain)]
        assert [entry.operation for entry in table.history()][:-1] == told[:-1], steps
        assert table.version == len(told) - 1
        versions = range(table.version + 1)
        expected = random_scripts.rows_of_versions(plain, versions)
        assert random_scripts.rows_of_versions(ours, versions) == expected, steps
        seen = {v: sort_rows(table.scan(version=v).to_arrow().to_pylist()) for v in versions}
        widest = {name for row in expected[table.version] for name in row}
        assert {v: filled(rows, widest) for v, rows in seen.items()} == expected, steps
        assert random_scripts.schema_of(ours) == random_scripts.schema_of(plain), steps
        assert random_scripts.totals(ours) == random_scripts.totals(plain), steps
        check_invariants(catalog, "t")


def filled(rows, names):
    return sort_rows([dict.fromkeys(names) | row for row in rows])


@pytest.mark.parametrize("seed", numbers(20, 500))
def test_a_script_leaves_what_delta_leaves(uri, tmp_path, seed):
    run_script(uri, tmp_path, seed)


@pytest.mark.parametrize("seed", numbers(2, 200))
def test_a_transaction_leaves_what_its_statements_leave(uri, tmp_path, seed):
    """Three tables that read and write each other; every reader sees the same."""
    chance = random.Random(seed)
    vectors = chance.random() < 0.5
    statements = random_scripts.transaction(chance, "abc", 3 if seed < 10 else 6)
    with deltasql.connect(uri) as catalog:
        pairs = {name: a_pair(catalog, tmp_path, name, vectors) for name in "abc"}
        for name, (plain, _) in pairs.items():
            first = random_scripts.first_rows(chance)
            random_scripts.run_plain(first, plain)
            random_scripts.run_ours(first, uri, name)
        for statement in statements:
            names = {name: f"delta.`{plain}`" for name, (plain, _) in pairs.items()}
            delta_spark.run(statement.format(**names))
        before = {name: catalog.table(name).version for name in "abc"}
        with deltasql.spark.transaction(delta_spark.session(), uri) as tx:
            for statement in statements:
                tx.sql(statement.format(a="a", b="b", c="c"))
        assert set(tx.versions.values()) <= {version + 1 for version in before.values()}
        catalog.mirror.run_once()
        delta_spark.forget()
        for name, (plain, ours) in pairs.items():
            expected = delta_spark.read_delta_spark(plain)
            assert delta_spark.read_delta_spark(ours) == expected, statements
            assert read_deltasql(catalog.table(name)) == expected, statements
            assert read_duckdb(ours) == expected, statements
            if not vectors:  # deltalake reads no vectors
                assert read_deltalake(ours) == expected, statements
            check_invariants(catalog, name)
