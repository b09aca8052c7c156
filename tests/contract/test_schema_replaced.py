"""A schema is replaced only where every file of the old one goes."""

import pyarrow as pa
import pytest

from builders import a_table, ids, paths, rows
from deltasql.errors import CommitConflictError, SchemaError
from deltasql.protocol.schema.types import print_schema
from readers import READERS, read_deltasql

pytestmark = pytest.mark.req("R83")
# names are numbers, and `more` may not be null
OTHER = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.int64()),
        ("day", pa.string()),
        pa.field("more", pa.string(), nullable=False),
    ]
)


def other_rows(*numbers: int, day: str = "a") -> pa.Table:
    count = len(numbers)
    columns = [list(numbers), list(numbers), [day] * count, ["m"] * count]
    return pa.table(columns, schema=OTHER)


def seen(table) -> tuple[int, str, set[str]]:
    return table.version, print_schema(table.schema), paths(table)


def test_rows_that_stay_keep_their_schema(catalog, table):
    table.append(rows(1, day="a"))
    table.append(rows(2, day="b"))
    before = seen(table)
    for attempt in (
        lambda: table.overwrite(other_rows(3), where="day = 'a'", schema_mode="overwrite"),
        lambda: table.append(other_rows(3), schema_mode="overwrite"),
    ):
        with pytest.raises(SchemaError, match=r"orders cannot be replaced: the rows in day="):
            attempt()
    assert seen(table) == before
    assert ids(table) == [1, 2]


def test_a_schema_is_replaced_where_all_rows_go(catalog, table):
    table.append(rows(1, day="a"))
    table.overwrite(other_rows(3), where="day = 'a'", schema_mode="overwrite")
    assert ids(table) == [3]
    table.overwrite(rows(4), schema_mode="overwrite")
    place = table.location.removeprefix("file://")
    assert READERS["deltalake"](place) == read_deltasql(table)


def test_an_empty_table_takes_another_schema_with_its_first_rows(catalog, tmp_path):
    table = a_table(catalog, tmp_path, "empty")
    table.append(other_rows(1), schema_mode="overwrite")
    assert ids(table) == [1]


def test_the_same_schema_replaces_nothing(catalog, table):
    table.append(rows(1, day="a"))
    table.append(rows(2, day="b"), schema_mode="overwrite")
    table.overwrite(rows(3, day="a"), where="day = 'a'", schema_mode="overwrite")
    assert ids(table) == [2, 3]


def test_within_a_transaction_staged_rows_stay_too(catalog, table):
    table.append(rows(1, day="a"))
    with catalog.transaction() as tx:
        staged = tx.table("orders")
        staged.delete("day = 'a'")
        staged.append(rows(2, day="b"))
        with pytest.raises(SchemaError, match="rows in day=b"):
            staged.append(other_rows(3), schema_mode="overwrite")
        staged.delete("day = 'b'")
        staged.append(other_rows(4), schema_mode="overwrite")
    assert ids(table) == [4]


@pytest.mark.parametrize("where", [None, "day = 'a'"])
def test_rows_that_come_meanwhile_are_a_conflict(catalog, table, where):
    if where is not None:
        table.append(rows(1, day="a"))
    with pytest.raises(CommitConflictError), catalog.transaction() as tx:
        staged = tx.table("orders")
        if where is None:
            staged.append(other_rows(3), schema_mode="overwrite")
        else:
            staged.overwrite(other_rows(3), where=where, schema_mode="overwrite")
        table.append(rows(2, day="z"))
    assert 2 in ids(table)
