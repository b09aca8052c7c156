"""A scan gives the table's rows, whatever the files looked like when they were written."""

import json
import struct
import threading
import uuid
import zlib

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from deltasql.data.read_ahead import in_order
from deltasql.data.scanner import ScanSpec, output_schema, scan_files
from deltasql.errors import CorruptDataError, SchemaError, UnsafePathError
from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.predicate import parse_predicate
from deltasql.protocol.schema.arrow import from_arrow_schema
from deltasql.protocol.schema.types import (
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    Decimal,
    StructField,
    StructType,
)
from deltasql.storage.local import LocalStore
from deltasql.storage.memory import MemoryStore

PORTABLE = 1681511377
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _put(store, key, table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    data = sink.getvalue().to_pybytes()
    store.put(key, data)
    return key, len(data), {}, None


def _files(*rows):
    return pa.table(
        {
            "path": pa.array([row[0] for row in rows], pa.string()),
            "size": pa.array([row[1] for row in rows], pa.int64()),
            "partition_values": pa.array([json.dumps(row[2]) for row in rows], pa.string()),
            "deletion_vector": pa.array([row[3] for row in rows], pa.string()),
        }
    )


def _vector(positions):
    payload = struct.pack("<I", PORTABLE) + BitMap64(positions).serialize()
    padded = payload + b"\0" * (-len(payload) % 4)
    text = "".join(
        Z85[word // 85**power % 85]
        for (word,) in struct.iter_unpack(">I", padded)
        for power in (4, 3, 2, 1, 0)
    )
    entry = DeletionVector(
        storage_type="i",
        path_or_inline_dv=text,
        size_in_bytes=len(payload),
        cardinality=len(positions),
    )
    return msgspec.json.encode(entry).decode()


def _rows(*arguments, **options):
    return [row for batch in scan_files(*arguments, **options) for row in batch.to_pylist()]


def test_missing_columns_are_null_and_narrow_ones_are_widened():
    store = MemoryStore()
    inner = StructType((StructField("x", LONG), StructField("new", STRING)))
    schema = StructType(
        (
            StructField("i", LONG),
            StructField("f", DOUBLE),
            StructField("d", Decimal(12, 3)),
            StructField("n", inner),
            StructField("l", ArrayType(inner)),
            StructField("added", STRING),
        )
    )
    old = pa.table(
        {
            "f": pa.array([1.5], pa.float32()),
            "i": pa.array([7], pa.int8()),
            "d": pa.array([1], pa.decimal128(5, 1)),
            "n": pa.array([{"x": 1}], pa.struct([("x", pa.int32())])),
            "l": pa.array([[{"x": 1}, None]], pa.list_(pa.struct([("x", pa.int16())]))),
            "dropped": [1],
        }
    )
    (row,) = _rows(_files(_put(store, "a.parquet", old)), ScanSpec(schema), store)
    assert row["i"] == 7
    assert str(row["d"]) == "1.000"
    assert row["n"] == {"x": 1, "new": None}
    assert row["l"] == [{"x": 1, "new": None}, None]
    assert row["added"] is None
    assert "dropped" not in row


def test_batches_have_the_schema_that_was_promised():
    store = MemoryStore()
    table = pa.table({"a": [1], "b": ["x"], "n": [{"x": 1}]})
    spec = ScanSpec(from_arrow_schema(table.schema))
    (batch,) = scan_files(_files(_put(store, "a", table)), spec, store, columns=["n", "A"])
    assert batch.schema == output_schema(spec, ["n", "a"])


@pytest.mark.parametrize("old_form", [True, False])
def test_timestamps_of_all_forms_are_microseconds(old_form):
    store = MemoryStore()
    micros = [0, 253_402_300_799_000_000 if not old_form else 4_102_444_800_000_001]
    table = pa.table({"t": pa.array(micros, pa.timestamp("us", tz="UTC"))})
    file = _put(store, "a", table, use_deprecated_int96_timestamps=old_form)
    spec = ScanSpec(StructType((StructField("t", TIMESTAMP),)))
    (batch,) = scan_files(_files(file), spec, store)
    assert batch.column(0).cast(pa.int64()).to_pylist() == micros


def test_nanoseconds_in_a_file_are_cut():
    store = MemoryStore()
    table = pa.table({"t": pa.array([1_999], pa.timestamp("ns"))})
    spec = ScanSpec(StructType((StructField("t", TIMESTAMP_NTZ),)))
    (batch,) = scan_files(_files(_put(store, "a", table)), spec, store)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1]


def test_deleted_rows_stay_away_across_row_groups_and_batches():
    store = MemoryStore()
    path, size, values, _ = _put(store, "a", pa.table({"i": range(1000)}), row_group_size=300)
    deleted = {0, 299, 300, 301, 555, 999}
    spec = ScanSpec(StructType((StructField("i", LONG),)), batch_rows=128)
    files = _files((path, size, values, _vector(sorted(deleted))))
    assert [row["i"] for row in _rows(files, spec, store)] == [
        n for n in range(1000) if n not in deleted
    ]
    where = parse_predicate("i >= 550 AND i < 560", spec.schema)
    found = _rows(files, spec, store, predicate=where)
    assert [row["i"] for row in found] == [550, 551, 552, 553, 554, 556, 557, 558, 559]


def test_the_prefix_of_a_vectors_file_is_taken_literally():
    store = MemoryStore()
    path, size, values, _ = _put(store, "a", pa.table({"i": range(5)}))
    payload = struct.pack("<I", PORTABLE) + BitMap64([1]).serialize()
    frame = struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    store.put(f"a%20b/deletion_vector_{uuid.UUID(int=0)}.bin", b"\x01" + frame)
    entry = {
        "storageType": "u",
        "pathOrInlineDv": "a%20b" + "0" * 20,
        "offset": 1,
        "sizeInBytes": len(payload),
        "cardinality": 1,
    }
    spec = ScanSpec(StructType((StructField("i", LONG),)))
    found = _rows(_files((path, size, values, json.dumps(entry))), spec, store)
    assert [row["i"] for row in found] == [0, 2, 3, 4]


def test_partition_columns_are_typed_and_need_no_column_of_the_file():
    store = MemoryStore()
    path, size, _, _ = _put(store, "a", pa.table({"i": range(10)}))
    schema = StructType((StructField("p", LONG), StructField("i", LONG)))
    spec = ScanSpec(schema, ["p"], batch_rows=4)
    files = _files((path, size, {"p": "07"}, _vector([1, 2])))
    assert _rows(files, spec, store, columns=["p"]) == [{"p": 7}] * 8
    where = parse_predicate("p = 8", schema)
    assert _rows(_files(("gone", 1, {"p": "7"}, None)), spec, store, predicate=where) == []
    assert sum(batch.num_rows for batch in scan_files(files, spec, store, columns=[])) == 8


def test_a_partition_value_that_does_not_fit_is_refused():
    store = MemoryStore()
    path, size, _, _ = _put(store, "a", pa.table({"i": [1]}))
    spec = ScanSpec(StructType((StructField("p", LONG), StructField("i", LONG))), ["p"])
    with pytest.raises(CorruptDataError, match=r"'seven'.* p"):
        _rows(_files((path, size, {"p": "seven"}, None)), spec, store)


def test_row_groups_that_cannot_match_are_not_read(tmp_path):
    store = LocalStore(str(tmp_path))
    table = pa.table({"n": [{"a.b": 1, "l": [1]}] * 1000, "i": range(1000)})
    file = _put(store, "a.parquet", table, row_group_size=100, use_dictionary=False)
    with store.open_input("a.parquet") as source:
        groups = pq.ParquetFile(source).metadata
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    column = groups.row_group(2).column(groups.num_columns - 1)
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    (tmp_path / "a.parquet").write_bytes(data)
    spec = ScanSpec(from_arrow_schema(table.schema))
    where = parse_predicate("i >= 500", spec.schema)
    found = _rows(_files(file), spec, store, columns=["i"], predicate=where)
    assert [row["i"] for row in found] == list(range(500, 1000))
    with pytest.raises(CorruptDataError, match=r"a\.parquet"):
        _rows(_files(file), spec, store, columns=["i"])


def test_damaged_and_missing_files_are_named():
    store = MemoryStore()
    spec = ScanSpec(StructType((StructField("i", LONG),)))
    store.put("bad.parquet", b"PAR1 this is no Parquet file PAR1")
    store.put("empty.parquet", b"")
    for name in ("bad.parquet", "empty.parquet", "gone.parquet"):
        with pytest.raises(CorruptDataError, match=name):
            _rows(_files((name, 5, {}, None)), spec, store)
    wrong = _put(store, "text.parquet", pa.table({"i": ["seven"]}))
    with pytest.raises(CorruptDataError, match="column i"):
        _rows(_files(wrong), spec, store)


def test_paths_that_leave_the_table_are_refused():
    spec = ScanSpec(StructType((StructField("i", LONG),)))
    for path in ("../x", "%2e%2e/x", "/etc/passwd", "s3://other/x"):
        with pytest.raises(UnsafePathError):
            _rows(_files((path, 1, {}, None)), spec, MemoryStore())


def test_files_elsewhere_are_read_where_that_is_allowed(tmp_path):
    other = LocalStore(str(tmp_path / "other"))
    _put(other, "a b.parquet", pa.table({"i": [5]}))
    root = f"file://{tmp_path}/other"
    schema = StructType((StructField("i", LONG),))
    spec = ScanSpec(schema, allowed_roots=[root], open_root=lambda _: other)
    files = _files((f"{root}/a%20b.parquet", 1, {}, None))
    assert _rows(files, spec, MemoryStore()) == [{"i": 5}]


def test_a_column_that_is_not_there_is_refused():
    spec = ScanSpec(StructType((StructField("i", LONG),)))
    with pytest.raises(SchemaError, match="nope"):
        list(scan_files(_files(), spec, MemoryStore(), columns=["i", "nope"]))


def test_files_come_in_order_from_several_threads():
    store = MemoryStore()
    files = [_put(store, f"f{n}", pa.table({"i": [n, n + 100]})) for n in range(20)]
    spec = ScanSpec(StructType((StructField("i", LONG),)), threads=5)
    found = [row["i"] for row in _rows(_files(*files), spec, store)]
    assert found == [i for n in range(20) for i in (n, n + 100)]


def test_stopping_early_stops_the_threads():
    before = threading.active_count()
    store = MemoryStore()
    files = [_put(store, f"f{n}", pa.table({"i": range(1000)})) for n in range(50)]
    spec = ScanSpec(StructType((StructField("i", LONG),)), batch_rows=10)
    batches = scan_files(_files(*files), spec, store)
    assert next(batches).num_rows == 10
    batches.close()
    assert threading.active_count() == before


def test_tasks_run_ahead_only_so_far():
    started = []

    def task(number):
        def start():
            for item in range(100):
                started.append((number, item))
                yield item

        return start

    items = in_order((task(number) for number in range(10)), threads=2)
    next(items)
    assert {number for number, _ in started} <= {0, 1}
    assert len(started) <= 2 * 5
    items.close()


def test_an_error_comes_where_its_items_would_have_come():
    def good():
        yield 1

    def bad():
        yield 2
        raise CorruptDataError("here")

    items = in_order([good, bad, good], threads=3)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(CorruptDataError, match="here"):
        next(items)
