"""Many statements, many tables, one commit, by stock Delta Spark on staged logs.

One file, so that `make test` starts one JVM.
"""

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import NO_MIRROR
from delta_spark import read_delta_spark
from deltasql.errors import (
    BadArgumentError,
    CommitConflictError,
    InvalidCommitError,
    TableNotFoundError,
)
from deltasql.testing.invariants import check_invariants
from readers import read_deltalake, read_deltasql

pytestmark = [
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("needs_delta"),
]
# whatever the database, Spark does the same: one of them in `make test` is enough
ON_POSTGRES_LATER = pytest.mark.parametrize(
    "catalog_uri",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.verify)],
    indirect=True,
)
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.int64())])
TOTALS = pa.schema([("day", pa.string()), ("amount", pa.int64())])
VECTORS = {"delta.enableDeletionVectors": "true"}
ODD = ["plain", "a b/c%d#e=é", "x/y%", 'it\'s "so"', None]


@pytest.fixture(scope="module")
def needs_delta(spark):
    delta_spark.find_jars()


@pytest.fixture
def session(spark):
    return spark.spark


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as opened:
        yield opened


def a_table(catalog, tmp_path, name, schema=ORDERS, rows=(), **properties):
    table = catalog.create_table(
        name, location=str(tmp_path / f"a é {name}"), schema=schema, properties=properties
    )
    if rows:
        table.append(pa.Table.from_pylist(list(rows), schema=schema))
    return table


def order(number, day="a", amount=1):
    return {"id": number, "day": day, "amount": amount}


def orders_and_totals(catalog, tmp_path, **properties):
    given = [order(1, "a", 10), order(2, "a", 20), order(3, "b", 30)]
    orders = a_table(catalog, tmp_path, "orders", rows=given, **properties)
    sums = [{"day": "a", "amount": 30}, {"day": "b", "amount": 30}]
    return orders, a_table(catalog, tmp_path, "totals", TOTALS, sums, **properties)


def place(table) -> str:
    return table.location.removeprefix("file://").replace("%20", " ").replace("%C3%A9", "é")


def rows_of(table):
    """The rows of a table, read three ways that must agree."""
    found = read_deltasql(table)
    assert read_delta_spark(place(table)) == found
    return found


def amounts(table):
    return {row["id"]: row["amount"] for row in rows_of(table)}


def staged_folders(table):
    from pathlib import Path

    return list(Path(place(table)).glob("tx-*/_delta_log"))


def test_two_tables_in_one_commit(session, catalog, catalog_uri, tmp_path):
    orders, totals = orders_and_totals(catalog, tmp_path)
    session.createDataFrame(
        [(3, "b", 33), (4, "b", 40)], "id long, day string, amount long"
    ).createOrReplaceTempView("changes")
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        tx.sql("""MERGE INTO orders USING changes ON orders.id = changes.id
                  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
        tx.sql("""MERGE INTO totals t USING (SELECT day, sum(amount) s FROM orders GROUP BY day) n
                  ON t.day = n.day WHEN MATCHED THEN UPDATE SET amount = s""")
        assert orders.version == 1
        assert tx.versions == {}
    assert tx.versions == {"orders": 2, "totals": 2}
    assert amounts(orders) == {1: 10, 2: 20, 3: 33, 4: 40}
    assert rows_of(totals) == [{"amount": 30, "day": "a"}, {"amount": 73, "day": "b"}]
    assert read_deltalake(place(orders)) == read_deltasql(orders)
    entries = [table.history()[0] for table in (orders, totals)]
    assert {entry.transaction_id for entry in entries} == {tx.transaction_id}
    assert [entry.operation for entry in entries] == ["MERGE", "MERGE"]
    assert staged_folders(orders) == []
    for name in ("orders", "totals"):
        check_invariants(catalog, name)
    assert session.catalog.currentDatabase() == "default"
    assert [d.name for d in session.catalog.listDatabases()] == ["default"]
