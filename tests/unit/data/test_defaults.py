"""Which defaults our own writer can tell, and what rows get that leave the column out."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from deltasql.data.constraints import filled, literal_default, missing_defaults
from deltasql.protocol.schema.types import StructField, StructType, parse_schema


def a_field(kind: str, text: str) -> StructField:
    line = f'{{"name":"c","type":"{kind}","nullable":true,"metadata":{{}}}}'
    (field,) = parse_schema(f'{{"type":"struct","fields":[{line}]}}').fields
    return StructField("c", field.type, nullable=True, metadata={"CURRENT_DEFAULT": text})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "42", 42),
        ("long", "-1", -1),
        ("byte", "127", 127),
        ("string", "'it''s'", "it's"),
        ("string", "''", ""),
        ("boolean", "true", True),
        ("double", "1.5e3", 1500.0),
        ("date", "DATE'2024-02-29'", dt.date(2024, 2, 29)),
        ("date", "'2024-02-29'", dt.date(2024, 2, 29)),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("timestamp_ntz", "TIMESTAMP_NTZ'2024-02-29 01:02:03'", dt.datetime(2024, 2, 29, 1, 2, 3)),
        ("long", "NULL", None),
    ],
)
def test_literals(kind, text, value):
    found = literal_default(a_field(kind, text))
    assert found is not None
    assert found.as_py() == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1 + 1"),
        ("long", "1 or value = 2"),
        ("long", "value"),
        ("byte", "300"),
        ("decimal(10,2)", "1.555"),
        ("timestamp", "TIMESTAMP'2024-02-29 01:02:03'"),
        ("timestamp", "current_timestamp()"),
        ("string", "upper('a')"),
        ("string", "'a\\\\n'"),
        ("string", "'a' 'b'"),
        ("long", "'x'"),
    ],
)
def test_what_only_spark_can_tell(kind, text):
    assert literal_default(a_field(kind, text)) is None


def test_only_what_is_missing_is_filled():
    schema = StructType((a_field("long", "7"), StructField("D", a_field("long", "8").type)))
    assert missing_defaults(schema, ["C"]) == {}
    defaults = missing_defaults(schema, ["d"])
    batch = pa.record_batch({"d": pa.array([1, 2])})
    assert filled(batch, defaults).to_pydict() == {"d": [1, 2], "c": [7, 7]}
