"""Arguments and values that make no sense are refused by name, never by an error of Python."""

from datetime import UTC, date, datetime, timedelta

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aging import Stage
from builders import a_table, ids, rows
from deltasql.errors import (
    BadArgumentError,
    ConstraintViolationError,
    SchemaError,
    VacuumedError,
    VersionNotFoundError,
)
from readers import read_deltalake

WRONG = {
    "where": [0, False, b"day = 'a'", ["day = 'a'"]],
    "columns": ["id", 3, [1], b"id"],
    "version": ["1", True, 1.0],
    "timestamp": [True, 1.5, [1]],
}


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, vs in WRONG.items() for v in vs])
def test_a_scan_of_what_makes_no_sense_is_refused(catalog, table, name, value):
    table.append(rows(1))
    with pytest.raises(BadArgumentError):
        table.scan(**{name: value})
    if name in {"where", "columns"}:
        refused = pytest.raises(BadArgumentError)
        with refused, catalog.transaction() as tx:
            tx.table("orders").scan(**{name: value})


CALLS = {
    "delete nothing": lambda table: table.delete(None),
    "delete 0": lambda table: table.delete(0),
    "overwrite": lambda table: table.overwrite(rows(2), where=0),
    "compact": lambda table: table.compact(where=0),
    "restore a text": lambda table: table.restore(version="1"),
    "restore True": lambda table: table.restore(version=True),
    "changes": lambda table: table.changes("0"),
    "wait": lambda table: table.wait_mirrored(version="1"),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_call_that_makes_no_sense_is_refused(table, call):
    table.append(rows(1))
    with pytest.raises(BadArgumentError):
        CALLS[call](table)
    assert (table.version, ids(table)) == (1, [1])


@pytest.mark.parametrize("name", [None, 3, b"orders"])
def test_a_table_is_named_by_a_text(catalog, name):
    with pytest.raises(BadArgumentError, match="name of a table"):
        catalog.table(name)


@pytest.mark.req("R85")
def test_a_moment_before_a_commit_does_not_see_it(catalog, table):
    table.append(rows(1))
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=table.snapshot().timestamp)
    assert ids(table, timestamp=at) == [1]
    assert ids(table, timestamp=at + timedelta(microseconds=400)) == [1]
    assert ids(table, timestamp=at - timedelta(microseconds=400)) == []
    assert ids(table, timestamp=date(2100, 1, 1)) == [1]
    with pytest.raises(VersionNotFoundError):
        table.scan(timestamp=date(1999, 1, 1))


def not_utf8():
    offsets, data = pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])


@pytest.mark.parametrize("column", ["name", "day"])
def test_text_that_is_not_utf8_is_refused(table, column):
    with pytest.raises(SchemaError, match=f"{column} holds text that is not UTF-8"):
        table.append(pa.table({"id": [1], column: not_utf8()}))
    with pytest.raises(SchemaError, match="not UTF-8"):
        nested = pa.StructArray.from_arrays([not_utf8()], names=["text"])
        table.append(pa.table({"id": [1], "s": nested}), schema_mode="merge")
    assert table.version == 0


@pytest.mark.req("R26")
def test_a_partition_column_that_is_not_null_takes_no_empty_text(catalog, tmp_path):
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = a_table(catalog, tmp_path, schema=schema)
    with pytest.raises(ConstraintViolationError, match="day"):
        table.append([{"id": 1, "day": ""}])
    table.append([{"id": 1, "day": "a"}])
    assert [row["id"] for row in read_deltalake(table.location)] == [1]


PERIODS = pd.period_range("2020-01", periods=2, freq="M")
BOOL8 = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))
UNKNOWN = {
    "period": pd.DataFrame({"id": PERIODS}),
    "bool8": pa.table({"id": BOOL8}),
    "bool8 in a list": pa.table({"id": [1], "n": pa.ListArray.from_arrays([0, 2], BOOL8)}),
    "empty struct": pa.table({"id": [1], "s": pa.array([{}], pa.struct([]))}),
    "empty struct in a dict": [{"id": 1, "s": {}}],
    "too large": pd.DataFrame({"id": [2**70]}),
}


@pytest.mark.parametrize("kind", list(UNKNOWN))
def test_values_that_would_mean_something_else_are_refused(catalog, table, tmp_path, kind):
    for mode in ("strict", "merge"):
        with pytest.raises(SchemaError):
            table.append(UNKNOWN[kind], schema_mode=mode)
    assert table.version == 0


def test_a_table_with_an_empty_struct_takes_no_rows(catalog, tmp_path):
    fields = (
        '{"name":"id","type":"long","nullable":true,"metadata":{}}',
        '{"name":"s","type":{"type":"struct","fields":[]},"nullable":true,"metadata":{}}',
    )
    schema = f'{{"type":"struct","fields":[{",".join(fields)}]}}'
    table = a_table(catalog, tmp_path, schema=schema, partition_by=[])
    with pytest.raises(SchemaError, match="struct without fields"):
        table.append([{"id": 1}])


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y"])], ids=str)
def test_categories_are_texts(table, kind):
    names = pl.Series(["x", None, "y"], dtype=kind)
    table.append(pl.DataFrame({"id": [1, 2, 3], "name": names}))
    assert table.scan(columns=["name"]).to_arrow().column(0).to_pylist() == ["x", None, "y"]


@pytest.mark.req("R92")
def test_a_scan_from_before_a_vacuum_says_so(catalog_uri, tmp_path):
    stage = Stage(catalog_uri, tmp_path)
    with stage.catalog:
        stage.table.append(rows(1, 2))
        scan = stage.table.scan()
        stage.table.overwrite(rows(3))
        stage.pass_days(8)
        stage.vacuum()
        with pytest.raises(VacuumedError):
            scan.to_arrow()
        assert ids(stage.table) == [3]
