"""Zones by Spark's names, and what times mean in them."""

from datetime import UTC, datetime, timedelta

import pytest

from deltasql.errors import BadArgumentError
from deltasql.protocol.predicate import may_match, parse_predicate
from deltasql.protocol.schema.types import StructField, StructType, parse_type_name
from deltasql.protocol.values import parse_partition_value, parse_timestamp, parse_zone

NOON = datetime(2024, 7, 1, 12)


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("Etc/UTC", 0),
        ("+05:30", 5.5),
        ("-0800", -8),
        ("GMT+2", 2),
        ("UTC-01:30", -1.5),
        ("Europe/Berlin", 2),
        ("America/Los_Angeles", -7),
        ("PST", -7),
        ("CTT", 8),
    ],
)
def test_names(name, hours):
    assert parse_zone(name).utcoffset(NOON) == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Berlin", "+19:00", "../etc/passwd", "Mars/Olympus", "\0"])
def test_what_is_no_zone(name):
    with pytest.raises(BadArgumentError, match="is not known"):
        parse_zone(name)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-01-01 00:00:00", "2023-12-31T23:00:00"),
        ("2024-07-01", "2024-06-30T22:00:00"),
        ("2024-03-31 02:30:00", "2024-03-31T01:30:00"),  # an hour that clocks left out
        ("2024-10-27 02:30:00", "2024-10-27T00:30:00"),  # an hour that came twice
        ("2024-07-01 12:00:00Z", "2024-07-01T12:00:00"),
        ("2024-07-01 12:00:00+05:00", "2024-07-01T07:00:00"),
        ("0001-01-01 00:00:00Z", "0001-01-01T00:00:00"),
    ],
)
def test_times_in_berlin(text, utc):
    moment = datetime.fromisoformat(utc).replace(tzinfo=UTC)
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    berlin = parse_zone("Europe/Berlin")
    assert parse_timestamp(text, berlin)[0] == micros
    assert parse_partition_value(text, parse_type_name("timestamp"), berlin) == micros


def test_a_time_without_a_zone_by_its_type_has_none():
    ntz = parse_type_name("timestamp_ntz")
    berlin = parse_zone("Europe/Berlin")
    assert parse_partition_value("1970-01-01 00:00:00", ntz, berlin) == 0
    schema = StructType((StructField("n", ntz),))
    filtered = parse_predicate("n = '1970-01-01'", schema, zone=berlin)
    assert filtered.value == 0


def test_partitions_are_told_apart_in_the_zone_of_the_filter():
    schema = StructType((StructField("t", parse_type_name("timestamp")),))
    old, new = {"t": "2024-01-01 00:00:00"}, {"t": "2023-12-31T23:00:00.000000Z"}
    berlin = parse_predicate("t = '2024-01-01'", schema, zone=parse_zone("Europe/Berlin"))
    assert may_match(berlin, None, old)
    assert may_match(berlin, None, new)
    utc = parse_predicate("t = '2024-01-01'", schema)
    assert may_match(utc, None, old)
    assert not may_match(utc, None, new)
