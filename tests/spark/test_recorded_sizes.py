"""Whatever writes by Spark records the sizes of its files that the store knows."""

import pytest

import deltasql.spark
from spark_frames import a_big_frame, a_frame

pytestmark = pytest.mark.req("R26")


def test_writes_and_sinks(session, small):
    deltasql.spark.write(a_frame(session, 1, 2), small.uri, "orders")
    deltasql.spark.write(a_big_frame(session), small.uri, "orders")
    sink = a_frame(session, 3, day="ü/").write.format("deltasql").mode("append")
    sink.options(uri=small.uri, table="orders").save()
    assert small.table.snapshot().files(["size"]).num_rows >= 4
    assert small.catalog.mirror.verify("orders", data_files=True) == []


@pytest.mark.usefixtures("needs_delta")
def test_statements(session, small):
    deltasql.spark.write(a_big_frame(session), small.uri, "orders")
    with deltasql.spark.transaction(session, small.uri) as tx:
        tx.sql("UPDATE orders SET name = 'x' WHERE id < 10")
        tx.sql("INSERT INTO orders VALUES (-1, 'y', 'b')")
        tx.sql("DELETE FROM orders WHERE id = 11")
    assert small.catalog.mirror.verify("orders", data_files=True) == []
