"""Small tables for Spark's transactions, and what all readers say of them."""

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from delta_spark import read_delta_spark
from readers import read_deltasql

ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.int64())])
TOTALS = pa.schema([("day", pa.string()), ("amount", pa.int64())])


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
    return unquote(table.location.removeprefix("file://"))


def rows_of(table):
    """The rows of a table, read three ways that must agree."""
    found = read_deltasql(table)
    assert read_delta_spark(place(table)) == found
    return found


def amounts(table):
    return {row["id"]: row["amount"] for row in rows_of(table)}


def staged_folders(table):
    return list(Path(place(table)).glob("tx-*/_delta_log"))
