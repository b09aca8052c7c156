"""What alter, restore and schema merges may do to a table's properties and columns."""

import pyarrow as pa
import pytest

from builders import a_table, ids, rows
from deltasql.errors import BadArgumentError
from deltasql.protocol.features import is_fenced
from deltasql.testing.invariants import check_invariants


def with_column(number, name):
    return rows(number).append_column(name, pa.array([f"{name}{number}"]))


def test_two_schema_merges_in_one_transaction_are_one_schema(catalog, table):
    with catalog.transaction() as tx:
        tx.table("orders").append(with_column(1, "x"), schema_mode="merge")
        tx.table("orders").append(with_column(2, "y"), schema_mode="merge")
        tx.table("orders").append(with_column(3, "x"), schema_mode="merge")
    assert table.version == 1
    found = table.scan(columns=["id", "x", "y"]).to_arrow().to_pylist()
    assert sorted(map(str, found)) == [
        "{'id': 1, 'x': 'x1', 'y': None}",
        "{'id': 2, 'x': None, 'y': 'y2'}",
        "{'id': 3, 'x': 'x3', 'y': None}",
    ]
    check_invariants(catalog, "orders")


@pytest.mark.parametrize("now", ["false", "true"])
def test_a_restore_leaves_the_fence_as_it_is(catalog, tmp_path, now):
    before = {"true": "false", "false": "true"}[now]
    table = a_table(catalog, tmp_path, properties={"deltasql.fence": before})
    table.append(rows(1))
    table.alter(properties={"deltasql.fence": now, "k": "v"})
    table.restore(version=1)
    snapshot = table.snapshot()
    assert snapshot.metadata.configuration["deltasql.fence"] == now
    assert "k" not in snapshot.metadata.configuration
    assert is_fenced(snapshot.protocol) is (now == "true")
    table.alter(properties={"k": "w"})
    assert is_fenced(table.snapshot().protocol) is (now == "true")


FIXED = [
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
]


@pytest.mark.parametrize("name", FIXED)
def test_alter_does_not_move_the_beginning_of_timestamps(table, name):
    table.append(rows(1))
    with pytest.raises(BadArgumentError, match=name):
        table.alter(properties={name: "false" if "enable" in name else "1"})
    assert table.version == 1


@pytest.mark.req("R4")
def test_a_table_whose_transactions_expire_gets_checkpoints(catalog, tmp_path):
    name = "delta.setTransactionRetentionDuration"
    table = a_table(catalog, tmp_path, properties={name: "interval 30 days"})
    table.append(rows(1), txn=("job", 1))
    assert catalog.mirror.checkpoint("orders") is not None
    check_invariants(catalog, "orders")
    with pytest.raises(BadArgumentError, match=name):
        table.alter(properties={name: "soon"})
    assert ids(table) == [1]
