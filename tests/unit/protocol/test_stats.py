"""Statistics: parsed with tolerance, trusted with care, built as Spark builds them."""

import json
import math
import random
from decimal import Decimal as Number

import pytest

from deltasql.errors import ConfigError
from deltasql.protocol.predicate import may_match, parse_predicate
from deltasql.protocol.schema.columns import Leaf
from deltasql.protocol.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    Decimal,
    StructField,
    StructType,
)
from deltasql.protocol.stats.build import Summary, build_stats, cut_high, cut_low, stats_columns
from deltasql.protocol.stats.parse import FileStats, column_bounds, index_bounds, parse_stats


def _leaf(kind, name="a"):
    return Leaf((name,), (name,), kind, True)


def _stats(low, high):
    return parse_stats(f'{{"numRecords":3,"minValues":{{"a":{low}}},"maxValues":{{"a":{high}}}}}')


@pytest.mark.req("R37")
@pytest.mark.parametrize(
    ("precision", "scale"), [(16, 2), (18, 2), (20, 5), (28, 10), (38, 2), (38, 18), (38, 37)]
)
def test_bounds_of_decimals_that_were_printed_by_way_of_doubles_hold(precision, scale):
    """A double of the digits, divided by a product of tens: each step is rounded."""
    chance, power = random.Random(precision * 100 + scale), 1.0
    for _ in range(scale):
        power *= 10.0
    kind = Decimal(precision, scale)
    for _ in range(500):
        digits = chance.choice([1, -1]) * chance.randrange(10 ** chance.randrange(1, precision + 1))
        told, true = repr(float(digits) / power), Number(digits).scaleb(-scale)
        low, high = column_bounds(_stats(told, told), _leaf(kind))
        assert low <= true <= high, (precision, scale, digits)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", "3", "x" * 10, "[" * 100_000])
def test_unparsable_statistics_are_none(text):
    assert parse_stats(text) is None


def test_parts_of_a_wrong_type_tell_nothing():
    found = parse_stats('{"numRecords":"3","minValues":[],"maxValues":null,"nullCount":7}')
    assert found == FileStats()


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        (LONG, "1", "5", ("num", 1.0, 5.0)),
        (LONG, str(2**53 + 1), str(2**53 + 1), ("num", 2.0**53, 2.0**53 + 2)),
        (LONG, '"1"', "5.5", None),
        (LONG, "5", "1", None),
        (DOUBLE, "-1.5", '"NaN"', ("num", -1.5, None)),
        (DOUBLE, '"-Infinity"', "2", ("num", None, 2.0)),
        (DOUBLE, "1e400", "1e400", None),
        (FLOAT, "1.1", "1.1", ("num", 1.100000023841858, 1.100000023841858)),
        (DATE, '"1970-01-02"', '"1970-01-03"', ("num", 1.0, 2.0)),
        (DATE, '"yesterday"', '"+10000-01-01"', ("num", None, 2932897.0)),
        (TIMESTAMP, '"1970-01-01T00:00:00.001Z"', '"1970-01-01T00:00:00.002Z"', ("num", 1e3, 3e3)),
        (TIMESTAMP, '"1970-01-01 00:00:00"', '"1970-01-01 00:00:00"', None),
        (TIMESTAMP_NTZ, '"1970-01-01T00:00:00"', '"1970-01-01T00:00:00"', ("num", 0.0, 1e3)),
        (Decimal(10, 2), "1.10", "2.20", ("num", math.nextafter(1.1, 0), 2.2)),
        (STRING, '"a"', '"b"', ("text", "a", "b")),
        (STRING, '"a\\u0000b"', '"a\\u0000b"', ("text", "a", "a\x01")),
        (STRING, f'"{"y" * 99}"', f'"{"z" * 99}"', ("text", "y" * 64, "z" * 64 + "\U0010ffff")),
        (BOOLEAN, "false", "true", None),
        (ArrayType(LONG), "[1]", "[2]", None),
    ],
)
def test_bounds_of_an_index_hold_or_are_left_out(kind, low, high, expected):
    assert index_bounds(_stats(low, high), _leaf(kind)) == expected


def test_decimals_that_may_have_been_doubles_are_widened():
    column = _leaf(Decimal(38, 2))
    low, high = column_bounds(_stats("12345678901234567000", "12345678901234567000"), column)
    assert low < Number(12345678901234567000) < high
    exact = "12345678901234567890.12"
    assert column_bounds(_stats(exact, exact), column) == (Number(exact), Number(exact))


def test_a_maximum_that_old_writers_cut_is_still_a_maximum():
    _, high = column_bounds(_stats('"a"', json.dumps("a" * 32 + "\ufffd")), _leaf(STRING))
    assert high > "a" * 32 + "\U0001f600"


SCHEMA = StructType((StructField("a", LONG), StructField("s", STRING), StructField("p", LONG)))


@pytest.mark.parametrize(
    ("where", "stats", "keeps"),
    [
        ("a IS NULL", '{"numRecords":3,"nullCount":{"a":0}}', False),
        ("a IS NOT NULL", '{"numRecords":3,"nullCount":{"a":3}}', False),
        ("a > 0", '{"numRecords":3,"nullCount":{"a":3}}', False),
        ("a IS NULL", '{"numRecords":3}', True),
        ("a > 0", '{"numRecords":0}', False),
        ("a > 5", '{"minValues":{"a":1},"maxValues":{"a":5}}', False),
        ("a >= 5", '{"minValues":{"a":1},"maxValues":{"a":5}}', True),
        ("a != 5", '{"minValues":{"a":5},"maxValues":{"a":5}}', False),
        ("NOT (a < 9)", '{"minValues":{"a":1},"maxValues":{"a":5}}', False),
        ("a IN (7, 8)", '{"minValues":{"a":1},"maxValues":{"a":5}}', False),
        ("a NOT IN (5, NULL)", '{"minValues":{"a":1},"maxValues":{"a":5}}', False),
        ("s LIKE 'b%'", '{"minValues":{"s":"c"},"maxValues":{"s":"d"}}', False),
        ("s LIKE 'b%'", '{"minValues":{"s":"a"},"maxValues":{"s":"bz"}}', True),
        ("a > 5 OR s = 'x'", '{"minValues":{"a":1},"maxValues":{"a":5}}', True),
    ],
)
def test_statistics_prune_what_they_can(where, stats, keeps):
    assert may_match(parse_predicate(where, SCHEMA), parse_stats(stats)) is keeps


@pytest.mark.parametrize(
    ("where", "value", "keeps"),
    [
        ("p = 1", "01", True),
        ("p = 1", "2", False),
        ("p IS NULL", "", True),
        ("p IS NULL", None, True),
        ("p = 1", None, False),
        ("p = 1", "one", True),
    ],
)
def test_partition_values_are_compared_as_values(where, value, keeps):
    assert may_match(parse_predicate(where, SCHEMA), None, {"p": value}) is keeps


def test_statistics_are_spelled_in_deltas_order():
    inner = Leaf(("n", "x"), ("n", "x"), TIMESTAMP, True)
    columns = [
        (_leaf(LONG, "i"), Summary(1, 2, 0)),
        (_leaf(Decimal(20, 2), "d"), Summary(Number("1.50"), Number("12345678901234567.89"), 1)),
        (_leaf(DOUBLE, "f"), Summary(-math.inf, math.inf, 0)),
        (inner, Summary(-1, 1_999_999, 0)),
        (_leaf(BOOLEAN, "b"), Summary(False, True, 2)),
        (_leaf(STRING, "empty"), Summary(None, None, 3)),
    ]
    assert build_stats(3, columns, {}, tight_bounds=True) == (
        '{"numRecords":3,'
        '"minValues":{"i":1,"d":1.50,"f":"-Infinity","n":{"x":"1969-12-31T23:59:59.999Z"}},'
        '"maxValues":{"i":2,"d":12345678901234567.89,"f":"Infinity",'
        '"n":{"x":"1970-01-01T00:00:01.999Z"}},'
        '"nullCount":{"i":0,"d":1,"f":0,"n":{"x":0},"b":2,"empty":3},"tightBounds":true}'
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 33, "a" * 32, "a" * 32 + "\x7f"),
        ("a" * 32 + "é", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 31 + "\U0001f600b", "a" * 31 + "\U0001f600", "a" * 31 + "\U0001f600\x7f"),
        ("a" * 32 + "\U0010ffffb", "a" * 32, "a" * 32 + "\U0010ffff\x7f"),
        ("\U0010ffff" * 40, "\U0010ffff" * 16, None),
    ],
)
def test_strings_are_cut_by_utf16_units(text, low, high):
    assert cut_low(text, 32) == low
    assert cut_high(text, 32) == high
    assert low <= text
    assert high is None or text <= high


def test_the_first_leaves_are_told_about_or_the_chosen_ones():
    inner = StructType((StructField("x", LONG), StructField("y.z", LONG)))
    schema = StructType((StructField("p", LONG), StructField("n", inner), StructField("a", LONG)))

    def names(**configuration):
        return [leaf.path for leaf in stats_columns(schema, ["p"], configuration)]

    assert names() == [("n", "x"), ("n", "y.z"), ("a",)]
    assert names(**{"delta.dataSkippingNumIndexedCols": "1"}) == [("n", "x")]
    assert names(**{"delta.dataSkippingNumIndexedCols": "-1"}) == names()
    assert names(**{"delta.dataSkippingStatsColumns": "a, n.`y.z`"}) == [("n", "y.z"), ("a",)]
    assert names(**{"delta.dataSkippingStatsColumns": "N"}) == [("n", "x"), ("n", "y.z")]
    with pytest.raises(ConfigError, match="dataSkippingNumIndexedCols"):
        names(**{"delta.dataSkippingNumIndexedCols": "many"})
