"""Deletes, overwrites and compactions of partitions read only the files that SQL cannot exclude."""

import pyarrow as pa
import pytest

from builders import an_add, paths, rows
from deltasql.api.write import operations

pytestmark = pytest.mark.req("R9")
DAYS = 20


@pytest.fixture
def listed(table, monkeypatch):
    """The table with one file in each of twenty partitions, and how many files a plan has read."""
    table.commit([an_add(f"f{day}", day=f"d{day:02d}") for day in range(DAYS)])
    counted: list[int] = []
    before = operations.adds_of

    def count(batches):
        batches = list(batches)
        counted.append(sum(batch.num_rows for batch in batches))
        return before(batches)

    monkeypatch.setattr(operations, "adds_of", count)
    return table, counted


def test_a_delete_reads_the_files_of_its_partition(listed):
    table, counted = listed
    table.delete("day = 'd03'")
    assert counted == [1]
    assert paths(table) == {f"f{day}" for day in range(DAYS)} - {"f3"}


def test_an_overwrite_of_a_partition_reads_its_files(listed):
    table, counted = listed
    table.overwrite(rows(1, day="d03"), where="day = 'd03'")
    assert counted == [1]
    assert len(paths(table)) == DAYS
    assert "f3" not in paths(table)


def test_a_delete_inside_a_transaction_reads_the_files_of_its_partition(listed, catalog):
    table, counted = listed
    with catalog.transaction() as tx:
        tx.table("orders").append(rows(1, day="d04"))
        tx.table("orders").delete("day = 'd03'")
        tx.table("orders").delete("day = 'd04'")
    assert sum(counted) <= 2
    assert paths(table) == {f"f{day}" for day in range(DAYS)} - {"f3", "f4"}


def test_a_dynamic_overwrite_reads_the_partitions_that_it_touches(listed, catalog):
    from deltasql.api.write.operations import plan_partition_overwrite

    table, counted = listed
    planned = plan_partition_overwrite(table.snapshot(), [an_add("n3", day="d03")])
    assert counted == [1]
    assert sorted(action.path for action in planned.actions) == ["f3", "n3"]
    planned = plan_partition_overwrite(table.snapshot(), [an_add("n", day=None)])
    assert [action.path for action in planned.actions] == ["n"]


def test_a_dynamic_overwrite_compares_values_and_not_spellings(catalog, tmp_path):
    from deltasql.api.write.operations import plan_partition_overwrite

    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table = catalog.create_table(
        "numbers", location=str(tmp_path / "n"), schema=schema, partition_by=["n"]
    )

    def add(path: str, n: str):
        return an_add(path, partition_values={"n": n}, stats=None)

    table.commit([add("a", "1"), add("b", "01"), add("c", "2")])
    planned = plan_partition_overwrite(table.snapshot(), [add("d", "001")])
    assert sorted(action.path for action in planned.actions) == ["a", "b", "d"]
