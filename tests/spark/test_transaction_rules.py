"""Which names a statement of a transaction binds, what is refused, and what decides."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
from deltasql.errors import (
    BadArgumentError,
    CommitConflictError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from staged_tables import (
    ORDERS,
    a_table,
    amounts,
    order,
    place,
)

pytestmark = [
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("needs_delta"),
]
# whatever the database, Spark does the same: two tests and the kills show that
ON_SQLITE = pytest.mark.parametrize("catalog_uri", ["sqlite"], indirect=True)
EARLY = ["after-spark-staging", "before-spark-commit"]


@ON_SQLITE
def test_every_name_finds_its_staged_table(session, catalog, catalog_uri, tmp_path):
    """With and without a namespace, in sources and subqueries, beside the user's own tables."""
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1), order(2)])
    old = a_table(catalog, tmp_path, "sales.eu.orders", rows=[order(2, "x", 5), order(3, "x", 6)])
    session.range(1, 3).write.format("parquet").saveAsTable("mine")
    session.range(2, 9).createOrReplaceTempView("some")
    try:
        with deltasql.spark.transaction(session, catalog_uri) as tx:
            tx.sql("""MERGE INTO Orders USING (SELECT * FROM sales.eu.orders
                                               WHERE id IN (SELECT id FROM some)) AS n
                      ON orders.id = n.id AND orders.id IN (1, 2)
                      WHEN MATCHED THEN UPDATE SET amount = n.amount""")
            tx.sql("OPTIMIZE sales.eu.orders")
            tx.sql("ALTER TABLE `sales`.`eu`.orders ADD CONSTRAINT c CHECK (amount > 0)")
            tx.sql(
                "WITH orders AS (SELECT id FROM mine) INSERT INTO sales.eu.orders "
                "SELECT orders.id + 100, 'y', 1 FROM orders"
            )
            tx.sql(f"DELETE FROM delta.`{tx.path('orders')}` WHERE id = 1")
    finally:
        session.sql("DROP TABLE mine")
        session.catalog.dropTempView("some")
    assert amounts(orders) == {2: 5}
    assert amounts(old) == {2: 5, 3: 6, 101: 1, 102: 1}


@ON_SQLITE
def test_what_cannot_be_taken_back_is_refused(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])
    a_table(catalog, tmp_path, "my-orders", rows=[order(1)])
    a_table(catalog, tmp_path, "hidden", rows=[order(1)])
    elsewhere = catalog.create_table("elsewhere", location="memory://lake/x", schema=ORDERS)
    session.range(1).createOrReplaceTempView("hidden")
    refused = {
        "DROP TABLE orders": "cannot run DROP",
        "CREATE TABLE other AS SELECT 1": "cannot run CREATE",
        "VACUUM orders": "cannot run VACUUM",
        "RESTORE TABLE orders TO VERSION AS OF 0": "cannot run RESTORE",
        "SET a = b": "cannot run SET",
        "SELECT * FROM orders VERSION AS OF 0": "none of the past",
        "SELECT * FROM table_changes('orders', 0)": "change feed",
        "INSERT INTO nowhere VALUES (1)": "nowhere is no table of the catalog",
        f"SELECT * FROM delta.`{place(orders)}`": "that of the table orders",
        "SELECT * FROM hidden": "temporary view",
        "SELECT * FROM `my-orders`": "cannot name",
    }
    try:
        with deltasql.spark.transaction(session, catalog_uri) as tx:
            for statement, why in refused.items():
                with pytest.raises(BadArgumentError, match=why):
                    tx.sql(statement)
            with pytest.raises(UnsupportedFeatureError, match="elsewhere is not on local files"):
                tx.sql(f"SELECT * FROM {elsewhere.name}")
            with pytest.raises(TableNotFoundError, match="nowhere"):
                tx.table("nowhere")
            assert tx.table("my-orders").count() == 1
    finally:
        session.catalog.dropTempView("hidden")
    with pytest.raises(BadArgumentError, match="writes to no table"):
        deltasql.spark.sql(session, catalog_uri, "SELECT * FROM orders")
    assert tx.versions == {}


@ON_SQLITE
def test_a_lasting_view_of_a_table_is_refused(session, catalog, catalog_uri, tmp_path):
    """It would show the log, which is neither pinned nor checked; tables of others are read."""
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])
    session.sql(f"CREATE TABLE raw USING delta LOCATION '{place(orders)}'")
    session.sql("CREATE VIEW seen AS SELECT id FROM raw WHERE id IN (SELECT id FROM raw)")
    session.range(3).write.format("delta").saveAsTable("mine")
    session.sql("CREATE VIEW my_view AS SELECT * FROM mine WHERE id = 2")
    try:
        with deltasql.spark.transaction(session, catalog_uri) as tx:
            for name in ("raw", "seen", "default.seen", "spark_catalog.default.raw"):
                with pytest.raises(BadArgumentError, match="reads the table orders"):
                    tx.sql(f"INSERT INTO orders SELECT id + 1, 'x', 1 FROM {name}")
            tx.sql("INSERT INTO orders SELECT id, 'x', 1 FROM my_view")
    finally:
        for words in ("VIEW seen", "VIEW my_view", "TABLE raw", "TABLE mine"):
            session.sql(f"DROP {words}")
    assert amounts(orders) == {1: 1, 2: 1}


@ON_SQLITE
def test_compaction_alone_lets_appends_pass(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])
    orders.append(pa.Table.from_pylist([order(2)], schema=ORDERS))
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        tx.sql("OPTIMIZE orders")
        orders.append(pa.Table.from_pylist([order(3)], schema=ORDERS))
    assert tx.versions == {"orders": 4}
    assert amounts(orders) == {1: 1, 2: 1, 3: 1}
    with (
        pytest.raises(CommitConflictError),
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        assert tx.table("orders").count() == 3
        tx.sql("OPTIMIZE orders")
        orders.append(pa.Table.from_pylist([order(4)], schema=ORDERS))


@ON_SQLITE
@pytest.mark.parametrize("point", [*EARLY, "after-spark-commit"])
def test_the_sql_commit_decides(session, catalog, tmp_path, request, point):
    catalog_uri, version = request.getfixturevalue("catalog_uri"), 1 if point in EARLY else 2
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])

    def die(passed):
        if passed == point:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), hooked(die):
        deltasql.spark.sql(session, catalog_uri, "UPDATE orders SET amount = 2")
    assert orders.version == version
    assert amounts(orders) == {1: version}
    check_invariants(catalog, "orders")


@pytest.mark.verify
def test_spark_without_deltas_jar_is_told_how_to_get_it(tmp_path):
    """In a process of its own: jars cannot be taken out of a session."""
    code = f"""
import deltasql.spark
from deltasql.errors import MissingExtraError
from deltasql.spark_runtime.launch import import_session
session = import_session("local[1]", {{}})
try:
    deltasql.spark.sql(session.spark, "deltasql://sqlite/{tmp_path}/c.db", "DELETE FROM orders")
except MissingExtraError as error:
    print(error.message, error.advice)
session.close()
"""
    env = {**os.environ, "JAVA_HOME": delta_spark.find_java()}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env
    )
    assert "jar is not in this Spark session" in done.stdout, done.stderr
    assert "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0" in done.stdout
