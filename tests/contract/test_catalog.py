"""One contract for every dialect: what a catalog promises, on SQLite and on PostgreSQL."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from builders import a_remove, a_table, an_add, ids, paths, rows
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    CommitConflictError,
    InvalidCommitError,
    SchemaError,
    VersionNotFoundError,
)
from deltasql.protocol.actions import DomainMetadata, Txn
from deltasql.protocol.schema.types import Primitive, StructField
from deltasql.testing.invariants import check_invariants


def test_versions_count_up_from_zero(table):
    assert table.version == 0
    assert [table.append(rows(number)) for number in range(3)] == [1, 2, 3]
    assert ids(table) == [0, 1, 2]


@pytest.mark.req("R1")
@pytest.mark.req("R8")
def test_every_commit_is_in_the_log_when_it_returns(catalog, table):
    table.append(rows(1))
    assert catalog.mirror.status("orders")["mirrored_through"] == 1
    check_invariants(catalog, "orders")


def test_the_same_token_twice_is_one_commit(catalog, table):
    first = table.append(rows(1), commit_id="token")
    again = table.append(rows(1), commit_id="token")
    assert first == again == table.version == 1
    check_invariants(catalog, "orders", acknowledged={"token": 1})


def test_a_stale_expected_version_is_refused_and_names_both_sides(table):
    table.commit([an_add("won")], expected_version=0)
    with pytest.raises(CommitConflictError) as lost:
        table.commit([an_add("lost")], expected_version=0)
    assert lost.value.context["version"] == 1
    assert lost.value.context["read_version"] == 1
    assert "WRITE" in str(lost.value)
    assert paths(table) == {"won"}


def test_blind_appends_never_conflict(catalog, table):
    with catalog.transaction() as one, catalog.transaction() as other:
        one.table("orders").append(rows(1))
        other.table("orders").append(rows(2))
    assert ids(table) == [1, 2]
    assert table.version == 2


def test_an_overwrite_conflicts_with_an_append_it_did_not_see(catalog, table):
    table.append(rows(1))
    with pytest.raises(CommitConflictError, match="should have read"), catalog.transaction() as tx:
        tx.table("orders").overwrite(rows(9))
        table.append(rows(2))
    assert ids(table) == [1, 2]


def test_two_removes_of_one_file_conflict(catalog, table):
    table.commit([an_add("f")])
    with pytest.raises(CommitConflictError), catalog.transaction() as tx:
        tx.table("orders").commit([a_remove(an_add("f"))])
        table.commit([a_remove(an_add("f"))])
    assert paths(table) == set()


def test_a_delete_of_one_partition_does_not_disturb_another(catalog, table):
    table.append(rows(1, day="a"))
    with catalog.transaction() as tx:
        tx.table("orders").delete("day = 'a'")
        table.append(rows(2, day="b"))
    assert ids(table) == [2]


def test_compaction_survives_an_append_and_changes_no_row(catalog, table):
    for number in range(4):
        table.append(rows(number))
    before = table.snapshot()
    assert table.compact() == before.version + 1
    assert table.snapshot().files().num_rows == 1
    assert ids(table) == [0, 1, 2, 3]
    assert table.history(1)[0].operation == "OPTIMIZE"
    check_invariants(catalog, "orders")


def test_a_remove_of_a_file_that_is_not_there_is_refused(table):
    with pytest.raises(InvalidCommitError, match="nowhere"):
        table.commit([a_remove(an_add("nowhere"))])
    assert table.version == 0


def test_a_second_add_of_a_live_file_takes_its_place(catalog, table):
    table.commit([an_add("f", low=0, high=1)])
    table.commit([an_add("f", low=0, high=1, tags={"k": "v"}, data_change=False)])
    assert table.snapshot().files(["path", "tags"]).to_pylist() == [
        {"path": "f", "tags": '{"k":"v"}'}
    ]
    assert table.snapshot(version=1).files(["tags"]).column("tags").to_pylist() == [None]
    check_invariants(catalog, "orders")


@pytest.mark.parametrize(
    "actions",
    [
        [an_add("x"), an_add("x")],
        [an_add("x", day="a", partition_values={})],
        [an_add("x", size=-1)],
        [an_add("x\x00y")],
        [an_add("x"), a_remove(an_add("x"))],
        [Txn(app_id="a", version=1), Txn(app_id="a", version=2)],
    ],
)
def test_contradicting_actions_are_refused_whole(table, actions):
    with pytest.raises(InvalidCommitError):
        table.commit(actions)
    assert table.version == 0


def test_transaction_versions_of_an_application_only_go_up(table):
    assert table.append(rows(1), txn=("app", 5)) == 1
    assert table.append(rows(1), txn=("app", 5)) == 1
    with pytest.raises(CommitConflictError, match="app"):
        table.commit([an_add("x"), Txn(app_id="app", version=4)])
    assert table.append(rows(2), txn=("app", 6)) == 2
    assert [(txn.app_id, txn.version) for txn in table.snapshot().txns()] == [("app", 6)]
    assert [txn.version for txn in table.snapshot(version=1).txns()] == [5]


def test_domains_are_set_and_removed(table):
    domain = DomainMetadata(domain="d", configuration="{}", removed=False)
    table.alter(properties={"delta.feature.domainMetadata": "supported"})
    table.commit([domain])
    assert [one.domain for one in table.snapshot().domains()] == ["d"]
    table.commit([DomainMetadata(domain="d", configuration="{}", removed=True)])
    assert table.snapshot().domains() == []
    assert [one.domain for one in table.snapshot(version=2).domains()] == ["d"]


@pytest.mark.req("R84")
def test_many_tables_commit_together_or_not_at_all(catalog, table, tmp_path):
    totals = a_table(catalog, tmp_path, "totals")
    with catalog.transaction(operation="LOAD", user_metadata="nightly") as tx:
        tx.table("orders").append(rows(1))
        tx.table("totals").append(rows(10))
    assert tx.versions == {"orders": 1, "totals": 1}
    one, other = table.history(1)[0], totals.history(1)[0]
    assert one.transaction_id == other.transaction_id == tx.transaction_id
    assert one.committed_at == other.committed_at
    assert one.operation == "LOAD"
    assert one.user_metadata == "nightly"
    with pytest.raises(CommitConflictError), catalog.transaction() as bad:
        bad.table("orders").append(rows(2))
        bad.table("totals").commit([an_add("x")], expected_version=0)
    assert ids(table) == [1]
    assert totals.version == 1


def test_an_exception_in_the_block_forgets_everything(catalog, table):
    with pytest.raises(RuntimeError), catalog.transaction() as tx:
        tx.table("orders").append(rows(1))
        raise RuntimeError
    assert table.version == 0


def test_work_inside_a_transaction_folds_into_one_commit(catalog, table):
    table.append(rows(1, day="a"))
    with catalog.transaction() as tx:
        staged = tx.table("orders")
        staged.append(rows(2, day="b"))
        staged.append(rows(3, day="c"))
        staged.delete("day = 'b'")
        staged.delete("day = 'a'")
    assert table.version == 2
    assert ids(table) == [3]
    check_invariants(catalog, "orders")


@pytest.mark.req("R85")
def test_time_travel_by_version_and_by_time(catalog, table):
    table.append(rows(1))
    table.append(rows(2))
    table.delete("day = 'a'")
    assert [ids(table, version=number) for number in range(4)] == [[], [1], [1, 2], []]
    moment = table.snapshot(version=1).timestamp
    assert table.snapshot(timestamp=moment).version == 1
    assert table.snapshot(timestamp=datetime.fromtimestamp(moment / 1000, UTC)).version == 1
    with pytest.raises(VersionNotFoundError):
        table.snapshot(version=4)
    with pytest.raises(VersionNotFoundError, match="younger"):
        table.snapshot(timestamp=1)
    with pytest.raises(BadArgumentError):
        table.snapshot(version=1, timestamp=moment)


def test_restore_brings_rows_and_columns_back_as_a_new_version(catalog, table):
    table.append(rows(1))
    table.append(rows(2).append_column("extra", pa.array(["x"])), schema_mode="merge")
    table.overwrite(rows(3))
    assert table.restore(version=1) == 4
    assert ids(table) == [1]
    assert table.schema.names == ["id", "name", "day"]
    check_invariants(catalog, "orders")
    with pytest.raises(BadArgumentError):
        table.restore()


def test_alter_adds_columns_and_sets_properties(table):
    field = StructField("note", Primitive("string"), nullable=True)
    table.append(rows(1))
    assert table.alter(add=[field]) == 2
    assert table.alter(properties={"delta.appendOnly": "true", "k": "v"}) == 3
    assert table.alter(unset=["k"]) == 4
    assert table.schema.names == ["id", "name", "day", "note"]
    with pytest.raises(InvalidCommitError, match="append-only"):
        table.overwrite(rows(5))
    with pytest.raises(SchemaError, match="note"):
        table.alter(add=[field])
    with pytest.raises(BadArgumentError):
        table.alter(properties={"delta.appendOnly": "perhaps"})
    assert ids(table) == [1]


def test_merge_schema_reads_old_rows_with_nulls(table):
    table.append(rows(1))
    table.append(rows(2).append_column("extra", pa.array(["x"])), schema_mode="merge")
    found = table.scan(columns=["id", "extra"]).to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "extra": [None, "x"]}
    with pytest.raises(SchemaError):
        table.append(rows(3).append_column("unknown", pa.array(["x"])))


def test_delete_by_a_column_that_is_no_partition_is_refused(table):
    table.append(rows(1))
    with pytest.raises(BadPredicateError, match="id"):
        table.delete("id = 1")
    assert ids(table) == [1]


def test_replacing_partitions_refuses_rows_from_elsewhere(table):
    table.append(rows(1, day="a"))
    with pytest.raises(InvalidCommitError, match="outside"):
        table.overwrite(rows(2, day="b"), where="day = 'a'")
    table.overwrite(rows(2, day="a"), where="day = 'a'")
    assert ids(table) == [2]


def test_a_stream_of_files_may_be_left_in_the_middle(catalog, table):
    table.commit([an_add(f"f{number}") for number in range(5_000)])
    stream = table.snapshot().stream_files(["path"])
    assert next(stream).num_rows > 0
    stream.close()
    assert table.append(rows(1)) == 2
    assert sum(batch.num_rows for batch in table.snapshot().stream_files(["path"])) == 5_001
