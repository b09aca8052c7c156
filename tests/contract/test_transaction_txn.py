"""A transaction over several tables that an application numbers: run again, it is a no-op."""

import pytest

import deltasql
from builders import a_table, ids, rows
from deltasql.errors import CommitConflictError
from deltasql.testing import check_invariants


@pytest.fixture
def catalog(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as opened:
        for name in ("one", "other", "third"):
            a_table(opened, tmp_path, name)
        yield opened


def write(catalog, number, *names, app="job"):
    with catalog.transaction(txn=(app, number)) as tx:
        for name in names:
            tx.table(name).append(rows(number))
    return tx.versions


def test_a_repetition_writes_nothing(catalog):
    assert write(catalog, 1, "one", "other") == {"one": 1, "other": 1}
    assert write(catalog, 2, "one", "other") == {"one": 2, "other": 2}
    for number in (2, 1):
        assert write(catalog, number, "one", "other") == {"one": 2, "other": 2}
    assert write(catalog, 1, "one", app="another") == {"one": 3}
    assert (ids(catalog.table("one")), ids(catalog.table("other"))) == ([1, 1, 2], [1, 2])
    check_invariants(catalog, "one")


def test_a_repetition_with_another_table_is_refused(catalog):
    """It is not the transaction that was made: nothing of it may get lost unseen."""
    write(catalog, 1, "one", "other")
    with pytest.raises(CommitConflictError, match="already written"):
        write(catalog, 1, "one", "third")
    assert ids(catalog.table("third")) == []


def test_nothing_staged_is_nothing_written(catalog):
    assert write(catalog, 1) == {}
