"""A dynamic overwrite replaces the partitions that new files touch, however they are spelled."""

import pyarrow as pa
import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add
from deltasql.api.write.operations import plan_partition_overwrite
from deltasql.protocol.actions import Remove

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.int32())])


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db", settings=NO_MIRROR) as opened:
        opened.create_if_missing()
        yield opened


def removed(planned):
    return sorted(action.path for action in planned.actions if isinstance(action, Remove))


@pytest.mark.parametrize(
    ("new", "gone"),
    [
        (["1"], ["one", "one-again"]),
        (["1", None], ["none", "one", "one-again"]),
        ([""], ["none"]),
        (["3"], []),
        ([], []),
    ],
)
def test_partitions_are_compared_by_value(catalog, tmp_path, new, gone):
    table = a_table(catalog, tmp_path, schema=SCHEMA)
    days = {"one": "1", "one-again": "01", "two": "2", "none": None}
    table.commit([an_add(name, day) for name, day in days.items()])
    adds = [an_add(f"new-{number}", day) for number, day in enumerate(new)]
    planned = plan_partition_overwrite(table.snapshot(), adds, data_change=False)
    assert removed(planned) == gone
    assert not any(a.data_change for a in planned.actions if isinstance(a, Remove))
    assert planned.read.matches is not None
    assert planned.read.matches(an_add("late", "001")) == ("1" in new)


def test_a_table_without_partitions_is_one(catalog, tmp_path):
    table = a_table(catalog, tmp_path, partition_by=[])
    table.commit([an_add("old", partition_values={})])
    planned = plan_partition_overwrite(table.snapshot(), [an_add("new", partition_values={})])
    assert removed(planned) == ["old"]
    assert planned.read.whole_table
