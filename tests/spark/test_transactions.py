"""Many statements, many tables, one commit, by stock Delta Spark on staged logs."""

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import some
from delta_spark import read_delta_spark
from deltasql.api.write.operations import live_adds
from deltasql.errors import (
    CommitConflictError,
    InvalidCommitError,
)
from deltasql.testing.invariants import check_invariants
from readers import read_deltalake, read_deltasql, read_duckdb
from staged_tables import (
    ORDERS,
    a_table,
    amounts,
    order,
    orders_and_totals,
    place,
    rows_of,
    staged_folders,
)

pytestmark = [
    # said when an error of Spark is turned into one of Python; no pandas is used here
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("needs_delta"),
]
# whatever the database, Spark does the same: two tests and the kills show that
ON_SQLITE = pytest.mark.parametrize("catalog_uri", ["sqlite"], indirect=True)
VECTORS = {"delta.enableDeletionVectors": "true"}
ODD = ["plain", "a b/c%d#e=é", "x/y%", 'it\'s "so"', None]


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


@ON_SQLITE
def test_an_exception_forgets_everything(session, catalog, catalog_uri, tmp_path):
    orders, totals = orders_and_totals(catalog, tmp_path)
    with (
        pytest.raises(RuntimeError, match="no"),
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        tx.sql("DELETE FROM orders WHERE id = 1")
        tx.sql("INSERT INTO totals VALUES ('c', 1)")
        raise RuntimeError("no")
    assert (orders.version, totals.version) == (1, 1)
    assert amounts(orders) == {1: 10, 2: 20, 3: 30}
    assert staged_folders(orders) == staged_folders(totals) == []
    assert [d.name for d in session.catalog.listDatabases()] == ["default"]


@ON_SQLITE
def test_statements_over_deletion_vectors(session, catalog, catalog_uri, tmp_path):
    given = [order(number, amount=number) for number in range(100)]
    orders = a_table(catalog, tmp_path, "orders", rows=given, **VECTORS)
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id % 10 = 3")
    assert orders.snapshot().files(["deletion_vector"]).column(0).null_count == 0
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        tx.sql("DELETE FROM orders WHERE id = 4")
        tx.sql("UPDATE orders SET amount = -1 WHERE id = 5")
        tx.sql("""MERGE INTO orders o USING (SELECT explode(array(6L, 13L)) id) n ON o.id = n.id
                  WHEN MATCHED THEN DELETE
                  WHEN NOT MATCHED THEN INSERT (id, day, amount) VALUES (n.id, 'new', 0)""")
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id = 7")
    expected = {n: n for n in range(100) if n % 10 != 3 and n not in {4, 6, 7}}
    assert amounts(orders) == {**expected, 5: -1, 13: 0}
    assert [entry.operation for entry in orders.history()[:3]] == [
        "DELETE",
        "TRANSACTION",
        "DELETE",
    ]
    assert read_duckdb(place(orders)) == read_deltasql(orders)
    deltasql.spark.sql(session, catalog_uri, "REORG TABLE orders APPLY (PURGE)")
    assert amounts(orders) == {**expected, 5: -1, 13: 0}
    assert orders.snapshot().files(["deletion_vector"]).column(0).null_count > 0
    check_invariants(catalog, "orders")


@ON_SQLITE
def test_column_mapping_and_deletion_vectors(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(n) for n in range(1, 9)], **VECTORS)
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        tx.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        tx.sql("ALTER TABLE orders RENAME COLUMN amount TO `the amount`")
        tx.sql("UPDATE orders SET `the amount` = 7 WHERE id = 2")
        tx.sql("ALTER TABLE orders ADD COLUMNS (note string)")
        tx.sql("INSERT INTO orders VALUES (9, 'c', 8, 'new')")
    assert orders.version == 2
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id > 4 AND id < 9")
    found = {row["id"]: (row["the amount"], row["note"]) for row in rows_of(orders)}
    assert found == {1: (1, None), 2: (7, None), 3: (1, None), 4: (1, None), 9: (8, "new")}
    assert "deltasqlManaged" in orders.snapshot().protocol.writer_features
    check_invariants(catalog, "orders")


@ON_SQLITE
def test_a_broken_constraint_is_refused(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])
    deltasql.spark.sql(
        session, catalog_uri, "ALTER TABLE orders ADD CONSTRAINT small CHECK (amount < 100)"
    )
    assert orders.version == 2
    with (
        pytest.raises(Exception, match="small") as caught,
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        tx.sql("UPDATE orders SET amount = 99")
        tx.sql("INSERT INTO orders VALUES (2, 'a', 100)")
    assert "CHECK" in delta_spark.complaint(caught.value)
    assert orders.version == 2
    assert amounts(orders) == {1: 1}


def test_write_skew_is_refused(session, catalog, catalog_uri, tmp_path):
    """Each reads what the other writes: they cannot both have been first."""
    orders, totals = orders_and_totals(catalog, tmp_path)
    with (
        pytest.raises(CommitConflictError, match="totals"),
        deltasql.spark.transaction(session, catalog_uri) as one,
    ):
        one.sql("UPDATE orders SET amount = (SELECT max(amount) FROM totals) WHERE id = 1")
        with deltasql.spark.transaction(session, catalog_uri) as other:
            other.sql("INSERT INTO totals SELECT 'z', max(amount) FROM orders")
    assert (orders.version, totals.version) == (1, 2)
    assert amounts(orders) == {1: 10, 2: 20, 3: 30}


@ON_SQLITE
def test_a_table_that_is_only_read_gets_no_version(session, catalog, catalog_uri, tmp_path):
    orders, _ = orders_and_totals(catalog, tmp_path)
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        assert tx.sql("SELECT count(*) FROM orders").first()[0] == 3
        assert tx.table("orders").count() == 3
        tx.sql("INSERT INTO totals SELECT day, amount FROM orders WHERE id = 1")
    assert tx.versions == {"totals": 2}
    assert orders.version == 1
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        assert tx.sql("SELECT * FROM totals").count() == 3
    assert tx.versions == {}


@ON_SQLITE
def test_a_concurrent_commit_conflicts_and_is_retried(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1)])
    runs = []

    def work(tx):
        runs.append(tx.transaction_id)
        tx.sql("UPDATE orders SET amount = amount + 1")
        if len(runs) < 3:
            orders.append(pa.Table.from_pylist([order(len(runs) + 1)], schema=ORDERS))
        return "done"

    with pytest.raises(CommitConflictError, match="should have read"):
        deltasql.spark.run_transaction(session, catalog_uri, work, retries=0)
    assert amounts(orders) == {1: 1, 2: 1}
    assert deltasql.spark.run_transaction(session, catalog_uri, work, retries=2) == "done"
    assert amounts(orders) == {1: 2, 2: 2, 3: 2}
    assert len(set(runs)) == 3
    assert staged_folders(orders) == []


@ON_SQLITE
def test_history_tells_each_statement(session, catalog, catalog_uri, tmp_path):
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1), order(2)])
    with deltasql.spark.transaction(session, catalog_uri, user_metadata="nightly") as tx:
        tx.sql("UPDATE orders SET amount = 5 WHERE id = 1")
        tx.sql("DELETE FROM orders WHERE id = 2")
    entry = orders.history()[0]
    assert (entry.operation, entry.user_metadata) == ("TRANSACTION", "nightly")
    assert '"UPDATE"' in entry.operation_params["operations"]
    assert '"DELETE"' in entry.operation_params["operations"]
    assert entry.operation_metrics["numUpdatedRows"] == "1"
    assert (entry.adds, entry.removes) == (1, 1)
    deltasql.spark.sql(session, catalog_uri, "UPDATE orders SET amount = 6")
    entry = orders.history()[0]
    assert entry.operation == "UPDATE"
    assert entry.operation_metrics["numUpdatedRows"] == "1"


@ON_SQLITE
def test_a_change_feed_takes_one_write(session, catalog, catalog_uri, tmp_path):
    feed = {"delta.enableChangeDataFeed": "true"}
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1), order(2)], **feed)
    deltasql.spark.sql(session, catalog_uri, "UPDATE orders SET amount = 9 WHERE id = 1")
    changes = (
        session.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 2)
        .load(place(orders))
        .select("id", "amount", "_change_type", "_commit_version")
    )
    assert {tuple(row) for row in changes.collect()} == {
        (1, 1, "update_preimage", 2),
        (1, 9, "update_postimage", 2),
    }
    with (
        pytest.raises(InvalidCommitError, match="orders"),
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        tx.sql("DELETE FROM orders WHERE id = 1")
        tx.sql("DELETE FROM orders WHERE id = 2")
    with (
        pytest.raises(InvalidCommitError, match="orders"),
        deltasql.spark.transaction(session, catalog_uri) as tx,
    ):
        tx.table("orders").write.format("delta").mode("append").save(tx.path("orders"))
        tx.table("orders").write.format("delta").mode("append").save(tx.path("orders"))
    assert orders.version == 2
    assert amounts(orders) == {1: 9, 2: 1}


@ON_SQLITE
@pytest.mark.verify
def test_odd_partitions_and_a_plain_delta_table_agree(session, catalog, catalog_uri, tmp_path):
    given = [order(number, day, number) for number, day in enumerate(ODD * 2)]
    orders = catalog.create_table(
        "orders",
        location=str(tmp_path / "with # and %"),
        schema=ORDERS,
        partition_by=["day"],
        properties=VECTORS,
    )
    orders.append(pa.Table.from_pylist(given, schema=ORDERS))
    plain = tmp_path / "plain"
    frame = session.createDataFrame(
        [(row["id"], row["day"], row["amount"]) for row in given],
        "id long, day string, amount long",
    )
    frame.write.format("delta").partitionBy("day").save(str(plain))
    statements = [
        "UPDATE {t} SET amount = amount + 100 WHERE day LIKE '%b%' OR day IS NULL",
        "DELETE FROM {t} WHERE id = 2",
        "UPDATE {t} SET day = 'new/é %' WHERE id = 0",
        "INSERT INTO {t} SELECT id + 50, day, amount FROM {t}",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id IN (51, 52, 53)",
    ]
    with deltasql.spark.transaction(session, catalog_uri) as tx:
        for statement in statements:
            tx.sql(statement.format(t="orders"))
            delta_spark.run(statement.format(t=f"delta.`{plain}`"))
    assert rows_of(orders) == read_delta_spark(str(plain))
    assert all(add.data_change for add in some(live_adds(orders.snapshot())))
    deltasql.spark.sql(session, catalog_uri, "DELETE FROM orders WHERE id > 5")
    delta_spark.run(f"DELETE FROM delta.`{plain}` WHERE id > 5")
    assert rows_of(orders) == read_delta_spark(str(plain))
    check_invariants(catalog, "orders")


@ON_SQLITE
def test_overwrites_and_dataframe_writers(session, catalog, catalog_uri, tmp_path):
    """A batch that was written before is not written again: Delta's own rule, over staged logs."""
    orders = a_table(catalog, tmp_path, "orders", rows=[order(1), order(2, "b"), order(3, "c")])
    batch = {"txnAppId": "loader", "txnVersion": "7"}
    for _ in range(2):
        with deltasql.spark.transaction(session, catalog_uri) as tx:
            tx.sql("INSERT INTO orders REPLACE WHERE day = 'b' VALUES (20, 'b', 2)")
            new = tx.table("orders").where("id = 3").selectExpr("id + 10 AS id", "day", "amount")
            new.write.format("delta").mode("append").options(**batch).save(tx.path("orders"))
    assert amounts(orders) == {1: 1, 3: 1, 13: 1, 20: 2}
    assert [(txn.app_id, txn.version) for txn in orders.snapshot().txns()] == [("loader", 7)]
    deltasql.spark.sql(session, catalog_uri, "INSERT OVERWRITE orders VALUES (5, 'z', 5)")
    assert amounts(orders) == {5: 5}
    assert orders.history()[0].operation == "WRITE"
    check_invariants(catalog, "orders")
