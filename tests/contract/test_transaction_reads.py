"""A transaction that read a table without writing to it: the table must not have changed."""

import pytest

from builders import a_table, ids, rows
from deltasql.errors import CommitConflictError, TableNotFoundError


def test_a_table_that_was_read_gets_no_version(catalog, tmp_path):
    orders, totals = (a_table(catalog, tmp_path, name) for name in ("orders", "totals"))
    with catalog.transaction() as tx:
        tx.table("orders").read_whole()
        tx.table("totals").append(rows(1))
    assert tx.versions == {"totals": 1}
    assert (orders.version, totals.version) == (0, 1)


def test_a_change_of_what_was_read_refuses_everything(catalog, tmp_path):
    orders, totals = (a_table(catalog, tmp_path, name) for name in ("orders", "totals"))
    with pytest.raises(CommitConflictError, match="orders: READ on version 0"):  # noqa: SIM117
        with catalog.transaction() as tx:
            tx.table("orders").read_whole()
            tx.table("totals").append(rows(1))
            orders.append(rows(2))
    assert totals.version == 0
    assert ids(orders) == [2]


def test_the_same_commit_sent_twice_is_one(catalog, tmp_path):
    _, totals = (a_table(catalog, tmp_path, name) for name in ("orders", "totals"))
    for _ in range(2):
        with catalog.transaction(commit_id="token") as tx:
            tx.table("orders").read_whole()
            staged = tx.table("totals")
            staged.append(rows(1))
            staged.expect_unchanged()
    assert tx.versions == {"totals": 1}
    assert ids(totals) == [1]


def test_pinned_tables_are_of_one_moment(catalog, tmp_path):
    orders, totals = (a_table(catalog, tmp_path, name) for name in ("orders", "totals"))
    with pytest.raises(CommitConflictError), catalog.transaction() as tx:
        assert [row.full_name for row in tx.pin()] == ["orders", "totals"]
        orders.append(rows(1))
        a_table(catalog, tmp_path, "later")
        assert tx.table("orders").snapshot.version == 0
        with pytest.raises(TableNotFoundError, match="later"):
            tx.table("later")
        tx.table("orders").read_whole()
        tx.table("totals").append(rows(2))
    assert totals.version == 0
