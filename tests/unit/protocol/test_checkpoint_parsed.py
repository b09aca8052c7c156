"""Typed statistics of checkpoints: Spark's fields, and bounds that hold in the column's type."""

from decimal import Decimal

import pyarrow as pa
import pytest

from commits import metadata
from deltasql.protocol.actions import Protocol
from deltasql.protocol.checkpoint.layout import CheckpointShape
from deltasql.protocol.checkpoint.parsed_columns import ParsedColumns


def of_type(*types: str, **configuration: str):
    fields = ",".join(
        f'{{"name":"c{n}","type":"{kind}","nullable":true,"metadata":{{}}}}'
        for n, kind in enumerate(types)
    )
    schema = f'{{"type":"struct","fields":[{fields}]}}'
    return metadata(schema_string=schema, partition_columns=[], configuration=configuration)


def parsed(about, text: str) -> dict:
    files = pa.record_batch({"stats": [text], "partition_values": ["{}"]})
    (found,) = ParsedColumns(about, has_vectors=False).arrays(files)["stats_parsed"].to_pylist()
    return found


def bounds(kind: str, low: str, high: str) -> tuple:
    text = f'{{"numRecords":1,"minValues":{{"c0":{low}}},"maxValues":{{"c0":{high}}}}}'
    found = parsed(of_type(kind), text)
    return found["minValues"]["c0"], found["maxValues"]["c0"]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("decimal(9,2)", "1.25", "1.25"),
        ("decimal(38,10)", "1.25", "1.25"),
        ("decimal(38,10)", "-1.25", "1e27"),
        ("decimal(38,0)", "-" + "9" * 38, "9" * 38),
        ("decimal(20,2)", "12345678901234.56", "99999999999999999.99"),
        ("decimal(18,18)", "0.1", "0.3"),
    ],
)
def test_a_decimal_bound_fits_its_column_and_still_bounds(kind, low, high):
    least, most = bounds(kind, low, high)
    assert least is None or least <= Decimal(low)
    assert most is None or most >= Decimal(high)


def test_a_decimal_bound_of_few_digits_stays_as_it_is():
    assert bounds("decimal(9,2)", "1.25", "2.5") == (Decimal("1.25"), Decimal("2.50"))


def test_a_decimal_bound_that_its_column_cannot_hold_is_none():
    assert bounds("decimal(9,2)", "-12345678.9", "99999999") == (None, None)
    # the true maximum may be one step further out, and that step is too long for the column
    assert bounds("decimal(17,0)", "0", "99999999999999999") == (Decimal(-1), None)


def fields(about, **options) -> list[str]:
    found = dict(ParsedColumns(about, **options).fields())["stats_parsed"]
    return [found.field(number).name for number in range(found.num_fields)]


def test_only_tables_with_vectors_tell_whether_bounds_are_tight():
    about = of_type("long")
    plain = ["numRecords", "minValues", "maxValues", "nullCount"]
    assert fields(about, has_vectors=False) == plain
    assert fields(about, has_vectors=True) == [*plain, "tightBounds"]


def test_columns_without_statistics_have_no_fields():
    wide = of_type(*["long"] * 40)
    kind = dict(ParsedColumns(wide, has_vectors=False).fields())["stats_parsed"]
    assert kind.field("minValues").type.num_fields == 32
    none = of_type("long", **{"delta.dataSkippingNumIndexedCols": "0"})
    assert fields(none, has_vectors=False) == ["numRecords"]


def test_the_protocol_tells_whether_there_are_vectors():
    about = of_type("long", **{"delta.checkpoint.writeStatsAsStruct": "true"})
    for features in ([], ["deletionVectors"]):
        protocol = Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=features,
            writer_features=features,
        )
        add = CheckpointShape(about, protocol).schema.field("add").type
        names = [field.name for field in add.field("stats_parsed").type]
        assert ("tightBounds" in names) == bool(features)
