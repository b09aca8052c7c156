"""A number that SQL and the log both gave out, and how to see that it was settled, or was not."""

import pytest

from builders import NO_MIRROR, rows
from deltasql.errors import RebaseError
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, place_of, put_foreign
from readers import read_deltalake, read_deltasql


def contest(table, *, ours=(10,)) -> tuple[list[int], bytes]:
    """Let both sides take the next number: the log one commit, SQL as many as it gets."""
    version = table.version + 1
    bytes_there = put_foreign(table, version, a_foreign_file(table, 100))
    settings = table._session.settings
    table._session.settings = NO_MIRROR  # the first of them finds the conflict and stops the rest
    made = [table.append(rows(number), commit_id=f"own-{number}") for number in ours]
    table._session.settings = settings
    table._session.engine.catch_up(table.table_id, seconds=60)
    assert table.state == "conflict"
    return made, bytes_there


def state_of(catalog, table) -> dict:
    """Everything that a refused repair must leave as it was."""
    database = catalog._session.book.database
    row = table.refresh()
    with database.read() as work:
        files = work.rows("known_paths", table_id=table.table_id)
    log = {f.name: f.read_bytes() for f in (place_of(table) / "_delta_log").iterdir()}
    history = table.history()
    return {"row": row, "files": sorted(files), "log": log, "history": history}


def check_settled(catalog, table) -> None:
    """SQL, the log and an independent reader agree, at every version."""
    check_invariants(catalog, "orders")
    found = catalog.mirror.verify("orders")
    assert found == [], found
    where = str(place_of(table))
    for version in range(table.version + 1):
        expected = read_deltasql(table, version=version)
        assert read_deltalake(where, version=version) == expected, version


def refused(catalog, table, match: str) -> None:
    before = state_of(catalog, table)
    plan = catalog.mirror.repair("orders", adopt=True, dry_run=True)
    assert not all(one.done for one in plan)
    with pytest.raises(RebaseError, match=match) as error:
        catalog.mirror.repair("orders", adopt=True)
    assert "--replace" in error.value.advice
    assert state_of(catalog, table) == before
