"""A filter of another engine is understood in part: the part never says more than the filter."""

import pytest

from deltasql.protocol.predicate.parser import MAX_LENGTH, parse_predicate, parse_understood
from deltasql.protocol.schema.types import StructField, StructType, parse_type_name

SCHEMA = StructType(
    (StructField("id", parse_type_name("long")), StructField("day", parse_type_name("string")))
)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("f(id) = 1", None),
        ("id = 1 and f(day) = 2", "id = 1"),
        ("f(day) = 2 and id = 1 and day > 'a'", "id = 1 and day > 'a'"),
        ("(id = 1 and (f(day) and day > 'a')) and g()", "id = 1 and day > 'a'"),
        ("id = 1 or f(day) = 2", None),
        ("not (id = 1 and f(day) = 2)", None),
        ("id = 1 and (day = 'a' or f(day))", "id = 1"),
        ("id = other and day = 'a'", "day = 'a'"),
        ("id >", None),
        ("id = 1; drop table t", None),
        ("", None),
    ],
)
def test_parts_that_are_joined_by_and(given, understood):
    found = parse_understood(given, SCHEMA)
    assert not found.is_whole
    if understood is None:
        assert found.predicate is None
    else:
        expected = parse_predicate(understood, SCHEMA)
        parts = getattr(expected, "parts", (expected,))
        assert found.predicate is not None
        assert found.predicate.parts == parts


def test_a_filter_that_is_understood_is_whole():
    found = parse_understood("id = 1 or day = 'a'", SCHEMA)
    assert found.is_whole
    assert found.predicate == parse_predicate("id = 1 or day = 'a'", SCHEMA)


def test_a_filter_that_is_too_long_is_not_cut():
    """Cut, it would be another filter."""
    text = "id = 1 and day in (" + ",".join(["'a'"] * (MAX_LENGTH // 4)) + ")"
    assert len(text) > MAX_LENGTH
    assert parse_understood(text, SCHEMA).predicate is None
