"""Values in text: what Delta writes is read, what it cannot write is refused."""

from decimal import Decimal as Number
from zoneinfo import ZoneInfo

import pytest

from deltasql.protocol.schema.types import Decimal, Primitive
from deltasql.protocol.values import (
    parse_date,
    parse_number,
    parse_partition_value,
    parse_timestamp,
    print_date,
    print_partition_value,
    print_timestamp,
    shortest_float,
)


@pytest.mark.parametrize(
    ("text", "micros", "told"),
    [
        ("1970-01-01T00:00:00.000001Z", 1, True),
        ("1970-01-01 00:00:00", 0, False),
        ("1970-01-01 00:00:00.1", 100_000, False),
        ("1970-01-01T00:00:00.123456789Z", 123_456, True),
        ("1969-12-31T23:59:59.999999Z", -1, True),
        ("1970-01-01T02:00:00+02:00", 0, True),
        ("1970-01-01T00:00:00-0130", 5_400_000_000, True),
        ("1970-01-02", 86_400_000_000, False),
        ("1970-01-01T00:00:00 UTC", 0, True),
    ],
)
def test_timestamps_are_read_in_all_their_spellings(text, micros, told):
    assert parse_timestamp(text) == (micros, told)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0001-01-01", -719162),
        ("0000-12-31", -719163),
        ("0000-02-29", -719469),
        ("-0001-12-31", -719529),
        ("-4712-01-01", -2440550),
        ("9999-12-31", 2932896),
        ("+10000-01-01", 2932897),
        ("294247-01-10", 106751991),
        ("-0001-02-29", None),
    ],
)
def test_days_are_counted_in_years_that_python_lacks(text, days):
    assert parse_date(text) == days
    moment = None if days is None else (days * 86_400_000_000 + 1, False)
    assert parse_timestamp(f"{text} 00:00:00.000001") == moment


@pytest.mark.parametrize(
    "text", ["", "now", "1970-13-01", "1970-01-01T25:00:00Z", "1970-01-01T00:00:00Q", "0001-02-29"]
)
def test_what_is_no_timestamp_is_none(text):
    assert parse_timestamp(text) is None
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("kind", "text", "value", "printed"),
    [
        ("integer", " 007", 7, "7"),
        ("byte", "128", None, None),
        ("long", "1_0", None, None),
        ("double", "1E3", 1000.0, "1000.0"),
        ("double", "-Infinity", float("-inf"), "-Infinity"),
        ("float", "1.1", 1.100000023841858, "1.1"),
        ("float", "1e300", None, None),
        ("boolean", "TRUE", True, "true"),
        ("boolean", "yes", None, None),
        ("date", "2026-02-30", None, None),
        ("date", "1969-12-31", -1, "1969-12-31"),
        ("timestamp", "1970-01-01 00:00:01", 1_000_000, "1970-01-01T00:00:01.000000Z"),
        ("timestamp_ntz", "1970-01-01T00:00:01.500", 1_500_000, "1970-01-01 00:00:01.5"),
        ("timestamp_ntz", "1970-01-01 00:00:00", 0, "1970-01-01 00:00:00"),
        ("binary", "é", b"\xc3\xa9", "é"),
        ("binary", "€\x01", b"\xe2\x82\xac\x01", "€\x01"),
        ("binary", "\ud800", None, None),
        ("string", " x ", " x ", " x "),
        ("variant", "x", None, None),
    ],
)
def test_partition_values_are_read_and_printed(kind, text, value, printed):
    assert parse_partition_value(text, Primitive(kind)) == value
    if value is not None:
        assert print_partition_value(value, Primitive(kind)) == printed


def test_decimals_keep_their_scale_or_are_refused():
    assert str(parse_partition_value("1.5", Decimal(10, 2))) == "1.50"
    assert parse_partition_value("1.005", Decimal(10, 2)) is None
    assert parse_partition_value("100", Decimal(3, 1)) is None
    assert print_partition_value(Number("1E-7"), Decimal(10, 7)) == "0.0000001"


@pytest.mark.parametrize("text", ["NaN", "Infinity", "", "1_000", "one", "0x10"])
def test_only_finite_numbers_are_numbers(text):
    assert parse_number(text) is None


def test_years_without_a_spelling_raise():
    with pytest.raises(ValueError):
        print_date(10**7)
    with pytest.raises(ValueError):
        print_timestamp(-(10**18))


def test_a_32_bit_float_gets_its_short_spelling():
    assert shortest_float(1.100000023841858) == 1.1
    assert shortest_float(0.5) == 0.5


@pytest.mark.parametrize("text", ["-0043-03-15 12:00:00", "+12000-07-01 12:00:00"])
def test_a_zone_has_an_offset_in_years_that_python_lacks(text):
    zone = ZoneInfo("Europe/Berlin")
    assert abs(parse_timestamp(text, zone)[0] - parse_timestamp(text)[0]) <= 7_200_000_000
