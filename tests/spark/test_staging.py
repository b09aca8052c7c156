"""Tables of many files are staged as a checkpoint, and behave as those of few."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
import deltasql.spark
from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.log_names import checkpoint_path
from deltasql.testing.invariants import check_invariants
from readers import read_deltasql, sort_rows
from staged_tables import ORDERS, order, place, rows_of, staged_folders

pytestmark = [
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("needs_delta"),
]
ON_SQLITE = pytest.mark.parametrize("catalog_uri", ["sqlite"], indirect=True)
VECTORS = {"delta.enableDeletionVectors": "true"}
MANY = 1_001


def linked(table, count):
    """Give a table the file of its one partition `many` under so many other names."""
    (found,) = [f for f in files(table) if "many" in f["partition_values"]]
    root, path = Path(place(table)), found["path"]
    adds = []
    for number in range(count):
        other = path.replace("part-", f"part-{number:05}-")
        os.link(root / path, root / other)
        adds.append(an_add(found, other))
    table.commit(adds)


def files(table):
    return table.snapshot().files(["path", "size", "partition_values", "stats"]).to_pylist()


def an_add(found, path):
    return {
        "add": {
            "path": path,
            "size": found["size"],
            "partitionValues": {"day": "many"},
            "modificationTime": 1,
            "dataChange": True,
            "stats": found["stats"],
        }
    }


@pytest.fixture
def orders(catalog, tmp_path):
    """More files than fit into a commit."""
    return an_orders_table(catalog, tmp_path, MANY)


def an_orders_table(catalog, tmp_path, count):
    """A table with one file of ten rows, one of one, and many others of one."""
    table = catalog.create_table(
        "orders",
        location=str(tmp_path / "a é # %"),
        schema=ORDERS,
        partition_by=["day"],
        properties=VECTORS,
    )
    given = [order(n, "few/é %", n) for n in range(10)] + [order(100, "many"), order(10, None)]
    table.append(pa.Table.from_pylist(given, schema=ORDERS))
    linked(table, count)
    return table


def few(table):
    return {r["id"]: r["amount"] for r in read_deltasql(table) if r["day"] != "many"}


@ON_SQLITE
@pytest.mark.verify
def test_statements_on_many_files(session, catalog, catalog_uri, orders):
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id = 3")
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        log = Path(tx.path("orders"))
        assert (log / checkpoint_path(0)).exists()
        assert tx.table("orders").count() == MANY + 11
        tx.sql("DELETE FROM orders WHERE id = 4 AND day <> 'many'")
        tx.sql("UPDATE orders SET amount = -1 WHERE id IN (5, 10) AND day IS DISTINCT FROM 'many'")
        tx.sql("INSERT INTO orders VALUES (11, 'new', 1)")
    expected = {n: n for n in range(10) if n not in {3, 4}} | {5: -1, 10: -1, 11: 1}
    assert few(orders) == expected
    assert len(rows_of(orders)) == MANY + 1 + len(expected)
    assert staged_folders(orders) == []
    assert orders.snapshot().protocol.writer_features.count("deltasqlManaged") == 1
    check_invariants(catalog, "orders")


def test_all_of_many_files(session, catalog, catalog_uri, orders):
    """Every file is removed by the path that the table itself gives it."""
    deltasql.spark.sql(session, catalog_uri, "OPTIMIZE orders")
    assert orders.snapshot().summary().files == 3
    assert len(rows_of(orders)) == MANY + 12
    check_invariants(catalog, "orders")


@ON_SQLITE
@pytest.mark.parametrize("count", [5, pytest.param(3_001, marks=pytest.mark.verify)])
def test_vectors_are_read_by_delta(session, catalog, catalog_uri, tmp_path, count):
    """Many files are given through a log of their own: none is missed, none comes twice."""
    orders = an_orders_table(catalog, tmp_path, count)
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id = 3")
    told = deltasql.spark.explain(catalog_uri, "orders")
    assert (told.way, told.reason) == ("delta", "rows are deleted by vectors")
    assert str(told).endswith("read by Delta's reader: rows are deleted by vectors.")
    frame = deltasql.spark.read(session, catalog_uri, "orders")
    assert sort_rows(frame.toArrow().to_pylist()) == read_deltasql(orders)
    some = deltasql.spark.read(session, catalog_uri, "orders", where="day = 'few/é %' and id > 7")
    assert sorted(row.id for row in some.collect()) == [8, 9]
    assert deltasql.spark.explain(catalog_uri, "orders", where="day is null").way == "native"


@ON_SQLITE
@pytest.mark.parametrize("count", [1, MANY])
def test_a_file_with_two_paths_is_refused(session, catalog_uri, orders, count):
    if count == 1:
        orders.overwrite(pa.Table.from_pylist([order(1, "many")], schema=ORDERS))
    found = next(f for f in files(orders) if "many" in f["partition_values"])
    orders.commit([an_add(found, f"{orders.location}/{found['path']}")])
    with (
        deltasql.spark.transaction(session, catalog_uri) as tx,
        pytest.raises(UnsupportedFeatureError, match="names one file twice"),
    ):
        tx.path("orders")
    assert list(Path(place(orders)).glob("tx-*")) == []


@ON_SQLITE
@pytest.mark.parametrize("count", [1, MANY])
def test_an_unknown_file_is_refused(session, catalog_uri, orders, count):
    """Whoever writes to a staged log by hand cannot bring in a file of another place."""
    if count == 1:
        orders.overwrite(pa.Table.from_pylist([order(1, "many")], schema=ORDERS))
    with (
        pytest.raises(InvalidCommitError, match="which the table does not have"),
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        tx.sql("DELETE FROM orders WHERE day = 'many' AND id = 1")
        log = Path(tx.path("orders")) / "_delta_log"
        stranger = '{"add":{"path":"file:/elsewhere/x","size":1,"partitionValues":{"day":"many"},'
        more = '"modificationTime":1,"dataChange":true}}\n'
        (log / f"{len(list(log.glob('*.json'))):020}.json").write_text(stranger + more)
