"""Work that is staged on a table leaves what the same calls leave one by one."""

import random

import msgspec
import pytest

from builders import a_table, an_add, ids, paths, rows
from deltasql.testing.invariants import check_invariants

A, B = an_add("a.parquet", "a"), an_add("b.parquet", "b")


def tagged(add, day=None):
    values = add.partition_values if day is None else {"day": day}
    return msgspec.structs.replace(add, tags={"seen": "yes"}, partition_values=values)


@pytest.mark.req("R84")
def test_a_delete_applies_to_a_live_file_that_was_added_again(catalog, table):
    table.commit([A, B])
    with catalog.transaction() as tx:
        tx.table("orders").commit([tagged(A)])
        tx.table("orders").delete("day = 'a'")
    assert paths(table) == {B.path}
    check_invariants(catalog, "orders")


@pytest.mark.req("R84")
def test_an_overwrite_applies_to_a_live_file_that_was_added_again(catalog, table):
    table.commit([A, B])
    with catalog.transaction() as tx:
        tx.table("orders").commit([tagged(A)])
        tx.table("orders").overwrite(rows(7))
    assert ids(table) == [7]


def test_a_file_is_deleted_by_the_partition_that_it_has_now(catalog, table):
    table.commit([A, B])
    with catalog.transaction() as tx:
        tx.table("orders").commit([tagged(A, "c")])
        tx.table("orders").delete("day = 'a'")
    assert paths(table) == {A.path, B.path}
    with catalog.transaction() as tx:
        tx.table("orders").commit([tagged(B, "d")])
        tx.table("orders").delete("day = 'd'")
    assert paths(table) == {A.path}


def _steps(seed: int):
    roll = random.Random(seed)
    files = [an_add(f"{n}.parquet", roll.choice("abc")) for n in range(6)]
    steps = []
    for _ in range(roll.randint(3, 8)):
        match roll.randrange(4):
            case 0 | 1:
                again = {add.path: tagged(add) for add in roll.choices(files, k=2)}
                steps.append(lambda table, adds=again: table.commit(list(adds.values())))
            case 2:
                day = roll.choice("abc")
                steps.append(lambda table, day=day: table.delete(f"day = '{day}'"))
            case 3:
                day = roll.choice("abc")
                steps.append(
                    lambda table, day=day: table.overwrite(rows(1, day=day), where=f"day = '{day}'")
                )
    return files, steps


def _shape(table):
    """The files of a table; those that overwrites wrote have names of their own."""
    found = table.snapshot().files(["path", "partition_values", "tags"]).to_pylist()
    named = [one | {"path": one["path"] if len(one["path"]) < 20 else "new"} for one in found]
    return sorted(map(str, named))


@pytest.mark.req("R84")
@pytest.mark.parametrize("seed", range(6))
def test_random_transactions_leave_what_single_commits_leave(catalog, tmp_path, seed):
    files, steps = _steps(seed)
    single = a_table(catalog, tmp_path, "single")
    whole = a_table(catalog, tmp_path, "whole")
    for table in (single, whole):
        table.commit(files[:4])
    for step in steps:
        step(single)
    with catalog.transaction() as tx:
        for step in steps:
            step(tx.table("whole"))
    assert _shape(whole) == _shape(single)
    assert whole.version == 2
    check_invariants(catalog, "whole")
