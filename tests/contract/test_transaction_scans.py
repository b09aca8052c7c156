"""A scan inside a transaction sees what was staged, and counts as read."""

import pyarrow as pa
import pytest

from builders import a_table, ids, rows
from deltasql.errors import CommitConflictError

pytestmark = pytest.mark.req("R84", "R86")


def seen(staged, **choice):
    return sorted(staged.scan(columns=["id"], **choice).to_arrow().column("id").to_pylist())


def test_a_scan_sees_the_pinned_version_and_what_was_staged(catalog, table):
    table.append(rows(1, 2))
    table.append(rows(3, day="b"))
    with catalog.transaction() as tx:
        staged = tx.table("orders")
        assert seen(staged) == [1, 2, 3]
        staged.append(rows(4, day="b"))
        staged.delete("day = 'a'")
        assert seen(staged) == [3, 4]
        assert seen(staged, where="id > 3") == [4]
        staged.append(rows(5).append_column("new", pa.array(["x"])), schema_mode="merge")
        assert staged.scan(columns=["new"], where="id = 5").to_arrow().to_pylist() == [{"new": "x"}]
    assert ids(table) == [3, 4, 5]


@pytest.mark.parametrize("where", [None, "day = 'a'", "id < 10"])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_change_of_rows_that_were_scanned_conflicts(catalog, table, tmp_path, where, change):
    totals = a_table(catalog, tmp_path, "totals")
    table.append(rows(1, 2))
    refused = pytest.raises(CommitConflictError)
    with refused, catalog.transaction() as tx:
        count = tx.table("orders").scan(where=where).to_arrow().num_rows
        tx.table("totals").append(rows(count))
        if change == "append":
            table.append(rows(3))
        else:
            table.delete("day = 'a'")
    assert totals.version == 0


def test_a_change_of_other_rows_does_not_conflict(catalog, table, tmp_path):
    table.append(rows(1, 2))
    table.append(rows(3, day="b"))
    with catalog.transaction() as tx:
        tx.table("orders").scan(where="day = 'a'").to_arrow()
        tx.table("orders").append(rows(4))
        table.delete("day = 'b'")
        table.append(rows(5, day="c"))
    assert ids(table) == [1, 2, 4, 5]


def test_two_transactions_that_read_what_the_other_writes_are_not_both_committed(
    catalog, table, tmp_path
):
    """Write skew: each moves a row into the table that the other found empty."""
    other = a_table(catalog, tmp_path, "other")
    one, two = catalog.transaction(), catalog.transaction()
    assert seen(one.table("orders")) == seen(two.table("other")) == []
    one.table("other").append(rows(1))
    two.table("orders").append(rows(2))
    one.commit()
    with pytest.raises(CommitConflictError), two:
        two.commit()
    assert (ids(table), ids(other)) == ([], [1])


def test_a_read_modify_write_loses_no_update(catalog, table):
    table.append(rows(1))
    refused = pytest.raises(CommitConflictError)
    with refused, catalog.transaction() as tx:
        found = tx.table("orders").scan().to_arrow()
        table.append(rows(2))
        tx.table("orders").overwrite(pa.concat_tables([found, rows(3)]))
    assert ids(table) == [1, 2]
