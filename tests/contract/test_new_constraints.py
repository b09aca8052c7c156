"""A constraint is added only where every row keeps to it, and stays true of every row after."""

import json

import pyarrow as pa
import pytest

from builders import a_table, ids, rows
from deltasql.api.write.driver import Commit, once, write_table
from deltasql.api.write.operations import plan_alter
from deltasql.api.write.schema_changes import RowsInPlace
from deltasql.api.write.table_write import CommitOptions
from deltasql.errors import CommitConflictError, ConstraintViolationError, UnsupportedFeatureError
from deltasql.protocol.schema.types import STRING, StructField
from deltasql.testing import inspect
from foreign_tables import a_field

pytestmark = pytest.mark.req("R83")
LOW = "delta.constraints.low"


@pytest.mark.parametrize(
    "text",
    ["id > 1", "id != 2", "name = 'n1'", "day = 'a'", "id < 3 or day = 'a'", "not (id = 3)"],
)
def test_a_constraint_that_a_row_breaks_is_refused_and_nothing_changes(table, text):
    table.append(rows(1, 2, day="a"))
    table.append(rows(3, day="b"))
    before = table.snapshot().metadata
    with pytest.raises(ConstraintViolationError, match=r"orders has rows that break .* low"):
        table.alter(properties={LOW: text})
    assert (table.version, table.snapshot().metadata) == (2, before)
    table.compact()


@pytest.mark.parametrize("text", ["id > 0", "name like 'n%'", "day in ('a', 'b')"])
def test_a_constraint_that_holds_is_added_and_kept(table, text):
    table.append(rows(1, 2, day="a"))
    table.append(rows(3, day="b"))
    table.alter(properties={LOW: text})
    with pytest.raises(ConstraintViolationError):
        table.append(pa.table({"id": [-1], "name": ["x"], "day": ["c"]}))
    table.compact()
    assert ids(table) == [1, 2, 3]


def test_null_keeps_to_no_constraint(table):
    table.append(pa.table({"id": [None], "name": ["x"], "day": ["a"]}, schema=rows().schema))
    with pytest.raises(ConstraintViolationError):
        table.alter(properties={LOW: "id > 0"})


def test_rows_that_are_deleted_break_nothing(table):
    table.append(rows(1, day="a"))
    table.append(rows(-5, day="b"))
    with pytest.raises(ConstraintViolationError):
        table.alter(properties={LOW: "id > 0"})
    table.delete("day = 'b'")
    assert table.alter(properties={LOW: "id > 0"}) == 4


def test_exact_statistics_decide_without_a_look_at_the_rows(table):
    table.append(rows(1, 2))
    for file in table.store.list_from(""):
        if file.key.endswith(".parquet"):
            table.store.put(file.key, b"not Parquet any more")
    assert table.alter(properties={LOW: "id > 0"}) == 2


def test_what_only_spark_can_judge_is_for_tables_without_rows(catalog, table, tmp_path):
    odd = {LOW: "id % 2 = 1"}
    empty = a_table(catalog, tmp_path, "empty")
    assert empty.alter(properties=odd) == 1
    table.append(rows(1))
    with pytest.raises(UnsupportedFeatureError, match="low") as refused:
        table.alter(properties=odd)
    assert "deltasql.spark" in refused.value.advice


def test_a_new_column_with_an_invariant_is_refused_over_rows_that_lack_it(table):
    told = json.dumps({"expression": {"expression": "more = 'x'"}})
    column = StructField("more", STRING, metadata=a_field("", delta__invariants=told)["metadata"])
    table.append(rows(1))
    with pytest.raises(ConstraintViolationError, match="invariant of more"):
        table.alter(add=[column])


def test_rows_that_come_meanwhile_are_looked_at_too(catalog, table):
    table.append(rows(1))
    snapshot = table.snapshot()
    store_at = inspect(catalog).connection.store_at
    plan = plan_alter(snapshot, set_properties={LOW: "id > 0"})
    checked = RowsInPlace(snapshot, table.store, store_at).checked(plan)
    table.append(rows(-1))
    with pytest.raises(CommitConflictError):
        write_table(
            inspect(catalog).session,
            table.table_id,
            lambda staged: staged.stage(checked),
            Commit(CommitOptions()),
            once(lambda: snapshot),
        )
    with pytest.raises(ConstraintViolationError):
        table.alter(properties={LOW: "id > 0"})
