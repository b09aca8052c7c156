"""Every Arrow type that Delta can hold is written as it is, also from the middle of an array."""

import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltasql.data.casting import conform, is_widening
from deltasql.errors import SchemaError
from deltasql.protocol.schema.arrow import from_arrow_schema, to_arrow_schema
from deltasql.protocol.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Decimal,
    StructField,
    StructType,
)

LISTS = [[1, 2], None, [3, None], [4, 5]]
ARRAYS = {
    "run ends": pc.run_end_encode(pa.array([1, 1, 2, 2])),
    "dictionary": pa.array(["a", None, "a", "b"]).dictionary_encode(),
    "list view": pa.array(LISTS, pa.list_view(pa.int64())),
    "large list view": pa.array(LISTS, pa.large_list_view(pa.int64())),
    "fixed list": pa.array(LISTS, pa.list_(pa.int64(), 2)),
    "large list": pa.array(LISTS, pa.large_list(pa.int64())),
    "uuid": pa.array([uuid.UUID(int=n).bytes for n in range(4)], pa.uuid()),
    "half": pa.array([1.5, None, 2.5, 0], pa.float16()),
    "string view": pa.array(["a", None, "b", ""], pa.string_view()),
    "uint64": pa.array([1, 2**64 - 1, None, 0], pa.uint64()),
    "null": pa.nulls(4),
    "deep": pa.array(
        [[{"a": [1]}, None], [], None, [{"a": None}]],
        pa.large_list(pa.struct([("a", pa.list_view(pa.int8()))])),
    ),
    "map": pa.array(
        [[("k", {"x": 1})], None, [], [("z", None)]],
        pa.map_(pa.large_string(), pa.struct([("x", pa.int32())])),
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 2), (2, 2), (3, 0)])
def test_values_survive_the_change_of_shape(name, start, length):
    array = ARRAYS[name].slice(start, length)
    batch = pa.record_batch({"a": array})
    schema = from_arrow_schema(batch.schema)
    found = conform(batch, schema)
    assert found.schema == to_arrow_schema(schema)
    found.validate(full=True)
    plain = array.storage if name == "uuid" else array
    assert [_number(one) for one in found.column(0).to_pylist()] == plain.to_pylist()


def _number(value):
    return int(value) if type(value).__name__ == "Decimal" else value


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (BYTE, LONG, True),
        (LONG, INTEGER, False),
        (INTEGER, DOUBLE, True),
        (LONG, DOUBLE, False),
        (FLOAT, DOUBLE, True),
        (DOUBLE, FLOAT, False),
        (INTEGER, FLOAT, False),
        (INTEGER, Decimal(12, 2), True),
        (INTEGER, Decimal(11, 2), False),
        (Decimal(10, 2), Decimal(12, 4), True),
        (Decimal(10, 2), Decimal(11, 4), False),
        (Decimal(10, 2), Decimal(38, 1), False),
        (DATE, TIMESTAMP, False),
        (TIMESTAMP, TIMESTAMP_NTZ, False),
        (LONG, STRING, False),
        (VOID, STRING, True),
    ],
)
def test_only_types_that_hold_every_value_are_wider(source, target, expected):
    assert is_widening(source, target) is expected


def test_two_columns_that_differ_only_in_case_are_refused():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "A"])
    with pytest.raises(SchemaError, match="2 columns named a"):
        conform(batch, StructType((StructField("a", LONG),)))
