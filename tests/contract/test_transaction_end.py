"""After its end a transaction takes nothing more; one that is forgotten says so."""

import gc

import pytest

from builders import an_add, ids, rows
from deltasql.errors import BadArgumentError
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

STAGED = {
    "append": lambda staged: staged.append(rows(9)),
    "overwrite": lambda staged: staged.overwrite(rows(9)),
    "delete": lambda staged: staged.delete("day = 'a'"),
    "commit": lambda staged: staged.commit([an_add("f")]),
    "scan": lambda staged: staged.scan(),
    "read_whole": lambda staged: staged.read_whole(),
    "expect_unchanged": lambda staged: staged.expect_unchanged(),
}


def ended(catalog, how):
    """A staged table whose transaction was committed, rolled back or committed by hand."""
    tx = catalog.transaction()
    staged = tx.table("orders")
    staged.append(rows(1))
    if how == "rolled back":
        with pytest.raises(ZeroDivisionError), tx:
            raise ZeroDivisionError
    else:
        tx.commit()
    return tx, staged


@pytest.mark.req("R84")
@pytest.mark.parametrize("how", ["committed", "rolled back"])
def test_a_staged_table_takes_nothing_after_the_end(catalog, table, tmp_path, how):
    _, staged = ended(catalog, how)
    files = sorted(tmp_path.rglob("*.parquet"))
    for use in STAGED.values():
        with pytest.raises(BadArgumentError, match="transaction has ended"):
            use(staged)
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert ids(table) == ([1] if how == "committed" else [])
    check_invariants(catalog, "orders")


def test_a_rolled_back_transaction_cannot_be_committed(catalog, table):
    tx, _ = ended(catalog, "rolled back")
    with pytest.raises(BadArgumentError, match="rolled back"):
        tx.commit()
    assert tx.versions == {}


def test_a_commit_repeated_tells_the_same_versions(catalog, table):
    tx, _ = ended(catalog, "committed")
    assert tx.commit() == tx.versions == {"orders": 1}


def forget(catalog, *, staged):
    tx = catalog.transaction()
    if staged:
        tx.table("orders").append(rows(1))
    else:
        tx.table("orders")
    del tx
    gc.collect()


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_forgotten_transaction_warns_that_its_rows_are_dropped(catalog, table, caplog):
    with pytest.warns(ResourceWarning, match="orders"):
        forget(catalog, staged=True)
    assert "orders" in caplog.text
    assert ids(table) == []


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_transaction_that_staged_nothing_may_be_forgotten(catalog, table, recwarn):
    forget(catalog, staged=False)
    assert [one for one in recwarn if issubclass(one.category, ResourceWarning)] == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.req("R92")
def test_the_in_flight_entry_of_a_forgotten_transaction_ends_with_it(catalog, table):
    opened = inspect(catalog)
    opened.in_flight.monotonic = iter(range(0, 10**9, 1000)).__next__  # every write takes long
    tx = catalog.transaction()
    tx.table("orders").append(rows(1))
    opened.in_flight.note_slow()
    assert count_in_flight(opened.database, table) == 1
    del tx
    gc.collect()
    opened.in_flight.note_slow()
    assert count_in_flight(opened.database, table) == 0


def count_in_flight(database, table):
    with database.read() as tx:
        return int(
            tx.fetch_all("oldest_open_work", table_id=table.table_id, now=0)[0][0] is not None
        )
