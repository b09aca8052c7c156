"""Rows become files, and the files' adds tell the truth about them."""

import datetime as dt
import itertools
import json
from contextlib import contextmanager
from decimal import Decimal as Number

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.data.scanner import ScanSpec, scan_files
from deltasql.data.writer import WriteSpec, parse_size, write_files
from deltasql.errors import (
    ConfigError,
    ConstraintViolationError,
    SchemaError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.schema.types import LONG, STRING, ArrayType, StructField, StructType
from deltasql.protocol.stats.parse import parse_stats
from deltasql.storage.memory import MemoryStore

NOW = 1_767_225_600_000


def _spec(schema, **options):
    numbers = itertools.count()
    return WriteSpec(schema, lambda: f"id-{next(numbers)}", NOW, **options)


def _write(table, store, schema=None, **options):
    spec = _spec(schema or from_arrow_schema(table.schema), **options)
    return write_files(table.to_reader(), spec, store)


def _read(adds, store, schema, **options):
    files = pa.table(
        {
            "path": pa.array([add.path for add in adds], pa.string()),
            "size": pa.array([add.size for add in adds], pa.int64()),
            "partition_values": pa.array(
                [json.dumps(add.partition_values) for add in adds], pa.string()
            ),
            "deletion_vector": pa.nulls(len(adds), pa.string()),
        }
    )
    spec = ScanSpec(schema, **options)
    return [row for batch in scan_files(files, spec, store) for row in batch.to_pylist()]


def test_an_add_tells_name_size_time_and_statistics():
    store = MemoryStore()
    (add,) = _write(pa.table({"id": [3, 1, None]}), store)
    assert add.path == "part-00000-id-0.c000.snappy.parquet"
    assert add.size == store.head(add.path).size
    assert (add.modification_time, add.data_change, add.partition_values) == (NOW, True, {})
    assert add.stats == (
        '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":3},"nullCount":{"id":1}}'
    )


def test_bounds_are_called_tight_where_vectors_may_delete_rows():
    (add,) = _write(pa.table({"id": [1]}), MemoryStore(), features=frozenset({"deletionVectors"}))
    assert add.stats.endswith(',"tightBounds":true}')


def test_no_rows_make_no_file():
    store = MemoryStore()
    assert _write(pa.table({"id": pa.array([], pa.int64())}), store) == []
    assert list(store.list_from("")) == []


def test_partitions_become_directories_with_values_escaped_twice_in_the_log():
    store = MemoryStore()
    table = pa.table(
        {
            "v": [1, 2, 3, 4, 5],
            "p": ["x/y%", "", None, "a b", "x/y%"],
            "day": pa.array([dt.date(2026, 1, 1)] * 5),
        }
    )
    adds = _write(table, store, partition_columns=["p", "day"])
    found = {add.path.rsplit("/", 1)[0]: add.partition_values for add in adds}
    assert found == {
        "p=x%252Fy%2525/day=2026-01-01": {"p": "x/y%", "day": "2026-01-01"},
        "p=__HIVE_DEFAULT_PARTITION__/day=2026-01-01": {"p": None, "day": "2026-01-01"},
        "p=a%20b/day=2026-01-01": {"p": "a b", "day": "2026-01-01"},
    }
    with store.open_input("p=x%2Fy%25/day=2026-01-01/part-00000-id-0.c000.snappy.parquet") as file:
        assert pq.read_table(file).to_pydict() == {"v": [1, 5]}
    schema = from_arrow_schema(table.schema)
    rows = _read(adds, store, schema, partition_columns=["p", "day"])
    assert sorted((row["v"], row["p"]) for row in rows) == [
        (1, "x/y%"), (2, None), (3, None), (4, "a b"), (5, "x/y%"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([7], pa.int8()), "7"),
        (pa.array([True]), "true"),
        (pa.array([1.5]), "1.5"),
        (pa.array([1.1], pa.float32()), "1.1"),
        (pa.array([Number("1.50")], pa.decimal128(10, 2)), "1.50"),
        (pa.array([dt.date(2026, 2, 3)]), "2026-02-03"),
        (pa.array([1], pa.timestamp("us", tz="Asia/Tokyo")), "1970-01-01T00:00:00.000001Z"),
        (pa.array([1_500_000], pa.timestamp("us")), "1970-01-01 00:00:01.5"),
        (pa.array([b"\x00\xc3\xa9"]), "\x00é"),
        (pa.array(["ü=:"]), "ü=:"),
        (pa.array([float("nan")]), "NaN"),
    ],
)
def test_partition_values_are_written_as_delta_spells_them_and_read_back(array, text):
    store = MemoryStore()
    table = pa.table({"v": [1], "p": array})
    (add,) = _write(table, store, partition_columns=["p"])
    assert add.partition_values == {"p": text}
    schema = from_arrow_schema(table.schema)
    ((row),) = _read([add], store, schema, partition_columns=["p"])
    assert str(row["p"]) == str(table.cast(_utc(table.schema))["p"][0].as_py())


def _utc(schema):
    kind = schema.field("p").type
    return (
        schema
        if getattr(kind, "tz", None) is None
        else pa.schema([schema.field("v"), pa.field("p", pa.timestamp("us", tz="UTC"))])
    )


def test_files_are_rolled_at_the_target_size_and_keep_every_row():
    store = MemoryStore()
    table = pa.table({"id": range(50_000), "text": [f"row {n * 7919}" for n in range(50_000)]})
    configuration = {"delta.targetFileSize": "64kb"}
    adds = _write(table, store, configuration=configuration)
    assert len(adds) > 3
    assert max(add.size for add in adds) < 3 * 64 * 1024
    assert sum(parse_stats(add.stats).num_records for add in adds) == 50_000
    rows = _read(adds, store, from_arrow_schema(table.schema))
    assert [row["id"] for row in rows] == list(range(50_000))


def test_many_partitions_stay_within_the_open_files(monkeypatch):
    monkeypatch.setattr("deltasql.data.writer.MAX_OPEN_FILES", 2)
    monkeypatch.setattr("deltasql.data.writer.MAX_BUFFERED_BYTES", 100)
    store = MemoryStore()
    table = pa.table({"v": range(1000), "p": [n % 10 for n in range(1000)]})
    spec = _spec(from_arrow_schema(table.schema), partition_columns=["p"])
    adds = write_files(table.to_reader(100), spec, store)
    assert len(adds) > 10
    rows = _read(adds, store, spec.schema, partition_columns=["p"])
    assert sorted((row["v"], row["p"]) for row in rows) == [(n, n % 10) for n in range(1000)]


def test_mapped_tables_are_written_with_physical_names_and_ids():
    def mapped(name, kind, number):
        metadata = {
            "delta.columnMapping.physicalName": f"col-{number}",
            "delta.columnMapping.id": number,
        }
        return StructField(name, kind, True, metadata)

    inner = StructType((mapped("x", LONG, 3),))
    schema = StructType(
        (
            mapped("id", LONG, 1),
            mapped("n", inner, 2),
            mapped("l", ArrayType(inner), 4),
            mapped("p", STRING, 5),
        )
    )
    table = pa.table({"id": [1], "n": [{"x": 2}], "l": [[{"x": 3}, None]], "p": ["a"]})
    for mode in ("name", "id"):
        store = MemoryStore()
        configuration = {"delta.columnMapping.mode": mode}
        (add,) = _write(table, store, schema, partition_columns=["p"], configuration=configuration)
        assert add.partition_values == {"col-5": "a"}
        assert json.loads(add.stats)["minValues"] == {"col-1": 1, "col-2": {"col-3": 2}}
        with store.open_input("col-5=a/part-00000-id-0.c000.snappy.parquet") as file:
            found = pq.read_schema(file)
        assert found.names == ["col-1", "col-2", "col-4"]
        assert found.field("col-1").metadata[b"PARQUET:field_id"] == b"1"
        assert found.field("col-2").type.field(0).metadata[b"PARQUET:field_id"] == b"3"
        rows = _read([add], store, schema, partition_columns=["p"], configuration=configuration)
        assert rows == table.to_pylist()


def test_columns_are_matched_by_name_whatever_their_case_and_order():
    schema = StructType((StructField("Id", LONG), StructField("name", STRING)))
    store = MemoryStore()
    adds = _write(pa.table({"NAME": ["a"], "ID": pa.array([1], pa.int8())}), store, schema)
    adds += _write(pa.table({"id": [2]}), MemoryStore(), schema)
    assert _read(adds[:1], store, schema) == [{"Id": 1, "name": "a"}]
    assert json.loads(adds[1].stats)["nullCount"] == {"Id": 0, "name": 1}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"id": [1], "more": [2], "again": [3]}, "again, more"),
        ({"id": ["x"]}, "cannot take values of type string"),
        ({"id": [1.5]}, "double"),
        ({"id": pa.array([2**64 - 1], pa.uint64())}, "uint64"),
        ({"id": [1], "n": [{"x": 1, "y": 2}]}, r"n\.y"),
        ({"id": [1], "n": ["flat"]}, "string"),
        ({"id": [1], "at": pa.array([1001], pa.timestamp("ns"))}, "exactly"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_column(column, message):
    inner = StructType((StructField("x", LONG),))
    schema = from_arrow_schema(pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    schema = StructType((*schema.fields, StructField("n", inner)))
    store = MemoryStore()
    with pytest.raises(SchemaError, match=message):
        _write(pa.table(column), store, schema)
    assert list(store.list_from("")) == []


def test_a_wrong_schema_is_refused_even_without_rows():
    with pytest.raises(SchemaError, match="other"):
        _write(
            pa.table({"other": pa.array([], pa.int64())}),
            MemoryStore(),
            from_arrow_schema(pa.schema([("id", pa.int64())])),
        )


def test_not_null_is_enforced_also_inside_of_structs_and_lists():
    inner = StructType((StructField("x", LONG, nullable=False),))
    schema = StructType(
        (
            StructField("id", LONG, nullable=False),
            StructField("n", inner),
            StructField("l", ArrayType(LONG, contains_null=False)),
        )
    )
    store = MemoryStore()
    good = {"id": [1, 2], "n": [{"x": 1}, None], "l": [[1], None]}
    (add,) = _write(pa.table(good), store, schema)
    assert _read([add], store, schema)[1] == {"id": 2, "n": None, "l": None}
    for bad, column in (
        ({"id": [1, None]}, "id"),
        ({"id": [1], "n": [{"x": None}]}, r"n\.x"),
        ({"id": [1], "l": [[None]]}, r"l\.element"),
    ):
        table = pa.table({name: pa.array(one, _kind(name)) for name, one in bad.items()})
        with pytest.raises(ConstraintViolationError, match=column):
            _write(table, store, schema)
    with pytest.raises(SchemaError, match="id"):
        _write(pa.table({"n": [{"x": 1}]}), store, schema)


def _kind(name):
    return {
        "id": pa.int64(),
        "n": pa.struct([("x", pa.int64())]),
        "l": pa.list_(pa.int64()),
    }[name]


def test_a_broken_constraint_leaves_no_file_behind():
    schema = from_arrow_schema(pa.schema([("id", pa.int64()), ("p", pa.int64())]))
    configuration = {"delta.constraints.positive": "id > 0", "delta.targetFileSize": "1kb"}
    store = MemoryStore()
    good = pa.table({"id": range(1, 5000), "p": [1] * 4999})
    for bad in (-1, None):
        rows = pa.concat_tables([good, pa.table({"id": pa.array([bad], pa.int64()), "p": [2]})])
        spec = _spec(schema, configuration=configuration, partition_columns=["p"])
        with pytest.raises(ConstraintViolationError, match=r"1 rows break .* positive"):
            write_files(rows.to_reader(500), spec, store)
        assert list(store.list_from("")) == []
    assert _write(good, store, schema, configuration=configuration)


def test_invariants_of_a_column_are_enforced():
    text = json.dumps({"expression": {"expression": "id < 10"}})
    schema = StructType((StructField("id", LONG, True, {"delta.invariants": text}),))
    assert _write(pa.table({"id": [9]}), MemoryStore(), schema)
    with pytest.raises(ConstraintViolationError, match="invariant of id"):
        _write(pa.table({"id": [10]}), MemoryStore(), schema)


@pytest.mark.parametrize(
    ("metadata", "configuration", "word"),
    [
        ({"delta.generationExpression": "1"}, {}, "generated"),
        ({"delta.identity.start": 1}, {}, "identity"),
        ({"CURRENT_DEFAULT": "rand()"}, {}, "default"),
        ({"delta.invariants": "{"}, {}, "delta.invariants"),
        ({}, {"delta.constraints.odd": "id % 2 = 1"}, "odd"),
    ],
)
def test_what_the_writer_cannot_do_is_refused_by_name(metadata, configuration, word):
    schema = StructType((StructField("id", LONG), StructField("g", LONG, True, metadata)))
    with pytest.raises(UnsupportedFeatureError, match=word):
        _write(pa.table({"id": [1]}), MemoryStore(), schema, configuration=configuration)


def test_a_default_is_no_obstacle_where_the_rows_bring_the_column():
    schema = StructType((StructField("g", LONG, True, {"CURRENT_DEFAULT": "1"}),))
    assert _write(pa.table({"g": [1]}), MemoryStore(), schema)


class _BreakingStore(MemoryStore):
    """Loses the connection when the second file is finished."""

    @contextmanager
    def open_output(self, key):
        with super().open_output(key) as sink:
            yield sink
            if key.startswith("p=2"):
                raise StorageUnavailableError("The store went away.")


def test_a_store_that_fails_midway_leaves_no_file_behind():
    store = _BreakingStore()
    table = pa.table({"v": [1, 2, 3], "p": [1, 2, 3]})
    with pytest.raises(StorageUnavailableError):
        _write(table, store, partition_columns=["p"])
    assert list(store.list_from("")) == []


def test_columns_of_floats_with_nan_have_no_bounds():
    inner = pa.array([{"y": float("nan")}, {"y": 1.0}])
    table = pa.table({"x": [1.0, float("nan")], "n": inner, "z": [1.0, float("inf")]})
    (add,) = _write(table, MemoryStore())
    stats = json.loads(add.stats)
    assert stats["minValues"] == {"z": 1.0}
    assert stats["maxValues"] == {"z": "Infinity"}
    assert stats["nullCount"] == {"x": 0, "n": {"y": 0}, "z": 0}


def test_a_name_with_a_dot_is_no_path():
    table = pa.table({"a.b": [1], "a": [{"b": 2}], "c": [3]})
    (add,) = _write(table, MemoryStore())
    assert json.loads(add.stats)["minValues"] == {"a.b": 1, "a": {"b": 2}, "c": 3}


def test_a_table_of_nothing_but_partitions_is_refused():
    with pytest.raises(SchemaError, match="partition"):
        _write(pa.table({"p": [1]}), MemoryStore(), partition_columns=["p"])


@pytest.mark.parametrize(
    ("text", "size"), [("100", 100), ("2kb", 2048), ("1 GB", 2**30), ("3m", 3 * 2**20)]
)
def test_sizes_are_read_with_their_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1 xb"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ConfigError):
        parse_size(text)
