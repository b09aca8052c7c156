"""Calls that change nothing make no version."""

import pytest

from builders import ids, rows
from deltasql.errors import CommitConflictError

NOTHING = {
    "append": lambda table, **options: table.append(rows(), **options),
    "append of dicts": lambda table, **options: table.append([], **options),
    "delete": lambda table, **options: table.delete("day = 'x'", **options),
    "overwrite of nothing": lambda table, **options: table.overwrite(
        rows(), where="day = 'x'", **options
    ),
}


@pytest.mark.parametrize("call", list(NOTHING))
def test_a_call_that_changes_nothing_returns_the_version_that_is_there(catalog, table, call):
    table.append(rows(1))
    assert NOTHING[call](table) == 1
    assert table.version == 1
    with catalog.transaction() as tx:
        NOTHING[call](tx.table("orders"))
    assert tx.versions == {}
    assert (table.version, ids(table)) == (1, [1])


@pytest.mark.parametrize("call", list(NOTHING))
def test_the_batch_of_an_application_is_recorded_even_if_it_is_empty(table, call):
    assert NOTHING[call](table, txn=("app", 1)) == 1
    assert NOTHING[call](table, txn=("app", 1)) == 1
    assert table.version == 1


def test_a_wrong_expected_version_is_refused_even_without_a_change(table):
    table.append(rows(1))
    with pytest.raises(CommitConflictError):
        table.append(rows(), expected_version=0)
    assert table.append(rows(), expected_version=1) == 1
