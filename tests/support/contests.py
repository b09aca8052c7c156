"""A number that SQL and the log both gave out, and how to see that it was settled, or was not."""

import pytest

from builders import NO_MIRROR, rows
from deltasql.errors import RecommitError
from deltasql.maintenance.settlement import SAVED
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, place_of, put_foreign
from readers import read_deltalake, read_deltasql

BLIND = {"is_blind_append": True}


def contest(table, *, ours=(10,), theirs=(100,)) -> dict[int, bytes]:
    """Let both sides take the next numbers, one blind append each; return the foreign bytes."""
    first = table.version + 1
    foreign = {
        version: put_foreign(table, version, a_foreign_file(table, number), **BLIND)
        for version, number in enumerate(theirs, start=first)
    }
    commit_unseen(table, *ours)
    assert table.state == "conflict"
    return foreign


def commit_unseen(table, *numbers: int) -> None:
    """Append in SQL without looking at the log; then the mirror finds what is there."""
    was_checked_before(table)
    settings = inspect(table).settings
    inspect(table).connection.settings = NO_MIRROR
    for number in numbers:
        table.append(rows(number), commit_id=f"own-{number}")
    inspect(table).connection.settings = settings
    inspect(table).engine.catch_up(table.table_id, seconds=60)


def was_checked_before(table) -> None:
    """Let this process be one that looked at the log before the foreign commit was put there."""
    inspect(table).connection.ownership._owned.add(table.table_id)


def log_files(table) -> dict[str, bytes]:
    """Everything in the log but what is kept aside, by name."""
    folder = place_of(table) / "_delta_log"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def saved(table) -> dict[str, bytes]:
    """What is kept aside, by the name that it had in the log."""
    folder = place_of(table) / SAVED
    files = sorted(folder.iterdir()) if folder.exists() else []
    return {file.name.rpartition(".")[0]: file.read_bytes() for file in files}


def state_of(table) -> dict:
    """Everything that a refused repair must leave as it was."""
    row = table.refresh()
    files = table.snapshot().files(["path", "dv_id"]).to_pylist()
    return {
        "row": row,
        "files": sorted(map(str, files)),
        "log": log_files(table),
        "saved": saved(table),
        "history": table.history(),
    }


def check_settled(catalog, table, **acknowledged) -> None:
    """SQL, the log and an independent reader agree, at every version."""
    check_invariants(catalog, "orders", **acknowledged)
    found = catalog.mirror.verify("orders")
    assert found == [], found
    assert table.state == "active"
    where = str(place_of(table))
    for version in range(table.version + 1):
        expected = read_deltasql(table, version=version)
        assert read_deltalake(where, version=version) == expected, version


def refused(catalog, table, match: str) -> None:
    """Recommit is refused with this reason, in the plan too, and nothing at all changes."""
    before = state_of(table)
    plan = catalog.mirror.repair("orders", recommit=True, dry_run=True)
    assert plan
    assert not any(one.done for one in plan)
    with pytest.raises(RecommitError, match=match) as error:
        catalog.mirror.repair("orders", recommit=True)
    assert "`replace=True`" in error.value.advice
    assert state_of(table) == before
