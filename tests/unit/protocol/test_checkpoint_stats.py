"""Typed statistics back to text: Delta's spelling, and bounds that still hold."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commits import metadata
from deltasql.protocol.checkpoint.parsed_columns import ParsedColumns, stats_texts
from deltasql.protocol.schema.columns import leaves
from deltasql.protocol.schema.types import parse_schema
from deltasql.protocol.stats.build import Summary, build_stats
from deltasql.protocol.stats.parse import column_bounds, null_count, parse_stats

UTC = dt.UTC
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678999, tzinfo=UTC)


def text_of(kind: pa.DataType, value) -> str | None:
    struct = pa.struct([("minValues", pa.struct([("c", kind)]))])
    (text,) = stats_texts(pa.array([{"minValues": {"c": value}}], struct)).to_pylist()
    return None if text is None else text.removeprefix('{"minValues":{"c":').removesuffix("}}")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int8(), -5, "-5"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 5.0, "5.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("inf"), '"Infinity"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.decimal128(9, 2), Decimal("1.5"), "1.50"),
        (pa.decimal128(38, 20), Decimal("1e-20"), "0.00000000000000000001"),
        (pa.date32(), dt.date(2026, 1, 2), '"2026-01-02"'),
        (pa.date32(), 2_932_897, None),
        (pa.timestamp("us", "UTC"), MOMENT, '"2026-01-02T03:04:05.678Z"'),
        (pa.timestamp("us"), MOMENT.replace(tzinfo=None), '"2026-01-02T03:04:05.678"'),
        (pa.timestamp("ms", "UTC"), 0, '"1970-01-01T00:00:00.000Z"'),
        (pa.timestamp("ns", "UTC"), -1, '"1969-12-31T23:59:59.999Z"'),
        (pa.timestamp("us", "UTC"), -1, '"1969-12-31T23:59:59.999Z"'),
        (pa.timestamp("us", "UTC"), 2**62, None),
        (pa.string(), "é日😀", '"é日😀"'),
        (pa.string(), 'a"b\\c\n\x01', '"a\\"b\\\\c\\n\\u0001"'),
        (pa.large_string(), "x", '"x"'),
        (pa.dictionary(pa.int32(), pa.string()), "x", '"x"'),
        (pa.struct([("d", pa.int32())]), {"d": 1}, '{"d":1}'),
        (pa.binary(), b"x", None),
        (pa.list_(pa.int32()), [1], None),
    ],
)
def test_a_value_is_spelled_as_delta_does(kind, value, text):
    assert text_of(kind, value) == text


def test_nulls_are_left_out_and_nothing_at_all_is_null():
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    kind = pa.struct(
        [("numRecords", pa.int64()), ("minValues", inner), ("tightBounds", pa.bool_())]
    )
    rows = [
        {"numRecords": 3, "minValues": {"a": None, "b": "x"}, "tightBounds": False},
        {"numRecords": 3},
        {"minValues": {"a": 1}},
        {"minValues": {}},
        {},
        None,
    ]
    found = stats_texts(pa.array(rows, kind))
    assert found.to_pylist() == [
        '{"numRecords":3,"minValues":{"b":"x"},"tightBounds":false}',
        '{"numRecords":3}',
        '{"minValues":{"a":1}}',
        None,
        None,
        None,
    ]
    assert stats_texts(pa.array(rows, kind).slice(2, 2)).to_pylist() == found.to_pylist()[2:4]


def test_names_are_quoted():
    kind = pa.struct([("minValues", pa.struct([('a"b.c', pa.int64())]))])
    (text,) = stats_texts(pa.array([{"minValues": {'a"b.c': 1}}], kind)).to_pylist()
    assert json.loads(text) == {"minValues": {'a"b.c': 1}}


TYPES = {
    "l": "long",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "x": "double",
    "f": "float",
    "p": "decimal(12,3)",
}
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in TYPES.items()
        ]
        + [
            {
                "name": "deep",
                "nullable": True,
                "metadata": {},
                "type": {
                    "type": "struct",
                    "fields": [{"name": "q", "type": "integer", "nullable": True, "metadata": {}}],
                },
            }
        ],
    }
)
ABOUT = metadata(schema_string=SCHEMA, partition_columns=[], configuration={})
COLUMNS = {".".join(leaf.path): leaf for leaf in leaves(parse_schema(SCHEMA), "none")}
DAYS = st.integers(-719_162, 2_932_000)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_200_000_000_000)
BOUNDS = {
    "l": st.integers(-(2**63), 2**63 - 1),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "d": DAYS,
    "t": MICROS,
    "n": MICROS,
    "x": st.floats(allow_nan=False),
    "f": st.floats(width=32, allow_nan=False),
    "p": st.decimals(-99_999, 99_999, places=3),
    "deep.q": st.integers(-(2**31), 2**31 - 1),
}
EXACT = {"l", "s", "d", "x", "f", "p", "deep.q"}


@st.composite
def summaries(draw) -> dict[str, Summary]:
    made = {}
    for name, values in BOUNDS.items():
        low, high = sorted([draw(values), draw(values)])
        known = draw(st.booleans())
        made[name] = Summary(
            low if known else None, high if known else None, draw(st.integers(0, 9))
        )
    return made


@given(told=summaries(), tight=st.booleans())
def test_what_goes_through_typed_columns_comes_back(told, tight):
    columns = [(COLUMNS[name], summary) for name, summary in told.items()]
    first = build_stats(7, columns, {}, tight_bounds=tight)
    files = pa.record_batch({"stats": [first], "partition_values": ["{}"]})
    parsed = ParsedColumns(ABOUT, has_vectors=True).arrays(files)["stats_parsed"]
    (second,) = stats_texts(parsed).to_pylist()
    before, after = parse_stats(first), parse_stats(second)
    assert (after.num_records, after.tight_bounds) == (7, before.tight_bounds)
    for name, leaf in COLUMNS.items():
        assert null_count(after, leaf) == null_count(before, leaf) == told[name].nulls
        low, high = column_bounds(before, leaf)
        least, most = column_bounds(after, leaf)
        if name in EXACT:
            assert (least, most) == (low, high), name
        elif low is not None:
            assert least <= low <= least + 1_000, name
            assert high <= most <= high + 1_000, name
