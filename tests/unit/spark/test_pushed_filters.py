"""What Spark pushes, as a predicate by which files are skipped."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import datasource as push

from deltasql.data.scan import ScanSpec
from deltasql.protocol.predicate import parse_predicate
from deltasql.protocol.schema import StructField, StructType, parse_type_name
from deltasql.spark.pushed_filters import pushed_predicate

TYPES = {
    "id": "long",
    "name": "string",
    "part": "double",
    "day": "date",
    "at": "timestamp",
    "price": "decimal(10,2)",
    "raw": "binary",
    "flag": "boolean",
}
SCHEMA = StructType(tuple(StructField(name, parse_type_name(kind)) for name, kind in TYPES.items()))
SPEC = ScanSpec(SCHEMA)
ID, NAME, PART = ("id",), ("name",), ("part",)


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (push.EqualTo(ID, 5), "id = 5"),
        (push.EqualNullSafe(ID, 5), "id <=> 5"),
        (push.GreaterThan(ID, 5), "id > 5"),
        (push.GreaterThanOrEqual(ID, 5), "id >= 5"),
        (push.LessThan(PART, 1.5), "part < 1.5"),
        (push.LessThanOrEqual(("price",), Decimal("9.99")), "price <= 9.99"),
        (push.In(ID, (1, 2, None)), "id in (1, 2, null)"),
        (push.IsNull(NAME), "name is null"),
        (push.IsNotNull(NAME), "not (name is null)"),
        (push.Not(push.EqualTo(NAME, "a")), "not (name = 'a')"),
        (push.Not(push.In(ID, (1,))), "not (id in (1))"),
        (push.StringStartsWith(NAME, "50%_\\"), r"name like '50\\%\\_\\\\%'"),
        (push.EqualTo(("day",), date(2024, 2, 29)), "day = date'2024-02-29'"),
        (
            push.GreaterThan(("at",), datetime(2024, 1, 2, 3, 4, 5, 6, UTC)),
            "at > timestamp'2024-01-02 03:04:05.000006Z'",
        ),
        (push.EqualTo(("flag",), value=True), "flag = true"),
        (push.EqualTo(("ID",), 5), "id = 5"),
    ],
)
def test_what_can_be_said_is_said(given, same):
    (found,) = pushed_predicate([given], SPEC).parts

    assert found == parse_predicate(same, SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        push.GreaterThan(PART, 1.5),  # met by NaN, of which statistics need not know
        push.GreaterThanOrEqual(PART, 1.5),
        push.Not(push.LessThan(PART, 1.5)),
        push.EqualTo(PART, float("nan")),
        push.LessThan(PART, float("inf")),
        push.In(PART, (1.0, float("nan"))),
        push.EqualTo(("raw",), b"x"),
        push.EqualTo(("gone",), 5),
        push.StringEndsWith(NAME, "a"),
        push.StringContains(NAME, "a"),
        push.StringStartsWith(("raw",), "a"),
        push.EqualTo(NAME, 5),
    ],
)
def test_what_cannot_is_left_to_spark(given):
    assert pushed_predicate([given], SPEC) is None


def test_the_others_count_all_the_same():
    given = [push.EqualTo(("raw",), b"x"), push.EqualTo(ID, 5), push.IsNotNull(NAME)]

    assert len(pushed_predicate(given, SPEC).parts) == 2
