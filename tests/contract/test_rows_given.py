"""What callers give to a write: every value arrives, or the write is refused."""

from decimal import Decimal

import pyarrow as pa
import pytest

from builders import SCHEMA, a_table, ids, rows
from deltasql.errors import BadArgumentError, CommitConflictError, SchemaError

DECIMALS = pa.schema([("id", pa.int64()), ("big", pa.decimal128(38, 0))])


def values(table, column="name"):
    found = table.scan(columns=["id", column]).to_arrow().to_pylist()
    return {row["id"]: row[column] for row in found}


def test_every_row_keeps_the_values_that_only_it_has(table):
    table.append([{"id": 1}, {"id": 2, "name": "x"}, {"name": "y", "id": 3, "day": "b"}])
    assert values(table) == {1: None, 2: "x", 3: "y"}
    assert values(table, "day") == {1: None, 2: None, 3: "b"}


@pytest.mark.parametrize("at", [0, 1])
def test_a_key_that_is_no_column_is_refused_by_name(table, at):
    given = [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
    given[at]["nmae"] = "z"
    with pytest.raises(SchemaError, match="nmae"):
        table.append(given)
    assert ids(table) == []
    table.append(given, schema_mode="merge")
    assert values(table, "nmae") == {1 + at: "z", 2 - at: None}


@pytest.mark.parametrize("given", [[{1: "x"}], [{"id": 2**63}], [{"id": 1}, {"id": "x"}]])
def test_rows_without_a_type_are_refused(table, given):
    with pytest.raises((SchemaError, BadArgumentError)):
        table.append(given)


def test_integers_of_any_size_fit_a_decimal_column(catalog, tmp_path):
    table = a_table(catalog, tmp_path, schema=DECIMALS, partition_by=[])
    table.append([{"id": 1, "big": 2**70}, {"id": 2, "big": Decimal(3)}, {"id": 3}])
    assert values(table, "big") == {1: Decimal(2**70), 2: Decimal(3), 3: None}


def test_no_rows_fit_every_table(catalog, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string())])
    table = a_table(catalog, tmp_path, schema=schema)
    table.append([])
    assert ids(table) == []


def test_rows_without_any_value_are_rows(table):
    table.append([{}, {}])
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.req("R86")
def test_an_overwrite_repeated_with_a_consumed_reader_does_not_empty_the_table(catalog, table):
    table.append(rows(1, 2))

    def batches():
        table.append(rows(3))  # another writer is faster
        yield from rows(7, 8).to_batches()

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(CommitConflictError) as lost:
        table.overwrite(reader)
    assert lost.value.retryable
    with pytest.raises(BadArgumentError, match="read by an earlier write"):
        table.overwrite(reader)
    assert ids(table) == [1, 2, 3]
    table.overwrite(rows(7, 8).to_reader())
    assert ids(table) == [7, 8]


def test_a_reader_is_read_by_one_write_only(catalog, table):
    reader = rows(1).to_reader()
    table.append(reader)
    with pytest.raises(BadArgumentError):
        table.append(reader)
    with pytest.raises(BadArgumentError), catalog.transaction() as tx:
        tx.table("orders").overwrite(reader)
    assert ids(table) == [1]
