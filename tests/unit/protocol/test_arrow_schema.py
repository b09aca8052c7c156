"""Delta schemas and Arrow schemas: there and back."""

import pyarrow as pa
import pytest

from deltasql.errors import SchemaError
from deltasql.protocol.schema.arrow import FIELD_ID, from_arrow_schema, to_arrow_schema
from deltasql.protocol.schema.types import (
    BINARY,
    DATE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    Decimal,
    MapType,
    Primitive,
    StructField,
    StructType,
)

PLAIN = StructType(
    (
        *(
            StructField(name, Primitive(name))
            for name in ("binary", "boolean", "byte", "date", "double", "float", "integer", "long")
        ),
        StructField("short", SHORT, nullable=False),
        StructField("string", STRING),
        StructField("timestamp", TIMESTAMP),
        StructField("timestamp_ntz", TIMESTAMP_NTZ),
        StructField("decimal", Decimal(20, 4)),
        StructField("array", ArrayType(LONG, contains_null=False)),
        StructField("map", MapType(STRING, StructType((StructField("x", LONG, nullable=False),)))),
    )
)


def test_a_schema_survives_the_way_through_arrow():
    assert from_arrow_schema(to_arrow_schema(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), Decimal(20, 0)),
        (pa.float16(), FLOAT),
        (pa.date64(), DATE),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.timestamp("ns", tz="Asia/Tokyo"), TIMESTAMP),
        (pa.decimal256(38, 2), Decimal(38, 2)),
        (pa.decimal128(5, -2), Decimal(7, 0)),
        (pa.binary(16), BINARY),
        (pa.binary_view(), BINARY),
        (pa.null(), VOID),
        (pa.list_(pa.int64(), 3), ArrayType(LONG)),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
        (pa.list_view(pa.int64()), ArrayType(LONG)),
    ],
)
def test_arrow_types_find_a_delta_type_that_holds_them(arrow, delta):
    assert from_arrow_schema(pa.schema([("a", arrow)])).fields[0].type == delta


@pytest.mark.parametrize("arrow", [pa.time64("us"), pa.duration("s"), pa.decimal256(50, 2)])
def test_what_delta_cannot_hold_is_refused_by_name(arrow):
    nested = pa.struct([("odd", arrow)])
    with pytest.raises(SchemaError, match=r"outer\.odd"):
        from_arrow_schema(pa.schema([("outer", nested)]))


def test_physical_schemas_carry_names_and_field_ids():
    metadata = {"delta.columnMapping.physicalName": "col-a", "delta.columnMapping.id": 7}
    schema = StructType((StructField("a", LONG, True, metadata),))
    field = to_arrow_schema(schema, "id", physical=True).field(0)
    assert (field.name, field.metadata) == ("col-a", {FIELD_ID: b"7"})
    assert to_arrow_schema(schema, "id").field(0).name == "a"
