"""Which filters mean the same to Spark and to SQL."""

import pytest

from deltasql.protocol.predicate import parse_predicate
from deltasql.protocol.schema.types import TYPE_TEXT, StructField, StructType, parse_type_name
from deltasql.spark.read.read_plan import has_odd_texts, pushable_part

STRING = parse_type_name("string")
SCHEMA = StructType(
    (
        StructField("id", parse_type_name("long")),
        StructField("x", parse_type_name("double")),
        StructField("y", parse_type_name("double")),
        StructField("v", STRING, metadata={TYPE_TEXT: "varchar(5)"}),
        StructField("c", STRING, metadata={TYPE_TEXT: "char(5)"}),
        StructField("k", STRING, metadata={"__COLLATIONS": {"k": "spark.UTF8_LCASE"}}),
        StructField(
            "s",
            StructType((StructField("c", STRING),)),
            metadata={TYPE_TEXT: "struct<c:char(3)>"},
        ),
    )
)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("id > 5", "id > 5"),
        ("x < 5 or x = 6", "x < 5 or x = 6"),
        ("not (x < 5)", "not (x < 5)"),
        ("v = 'a'", "v = 'a'"),
        ("x > 5", None),
        ("x >= 5 or id = 1", None),
        ("not (not (x > 5))", None),
        ("x = y", None),
        ("y > 5", "y > 5"),
        ("id = 1 and x > 5", "id = 1"),
        ("id = 1 and x between 5 and 6", "id = 1 and x <= 6"),
        ("c = 'a'", None),
        ("c is null", None),
        ("id = 1 and (c = 'a' or id = 2)", "id = 1"),
        ("k = 'a'", None),
        ("s.c = 'a' and id < 3", "id < 3"),
    ],
)
def test_what_files_are_skipped_by(given, kept):
    found = pushable_part(parse_predicate(given, SCHEMA), SCHEMA, ["x"])
    assert _leaves(found) == _leaves(None if kept is None else parse_predicate(kept, SCHEMA))


def _leaves(predicate):
    """A part of a conjunction is one by itself too."""
    if type(predicate).__name__ != "And":
        return [predicate]
    return [leaf for part in predicate.parts for leaf in _leaves(part)]


def test_odd_texts_are_told_from_odd_numbers():
    assert has_odd_texts(parse_predicate("id = 1 or c = 'a'", SCHEMA), SCHEMA)
    assert not has_odd_texts(parse_predicate("x > 1 and v = 'a'", SCHEMA), SCHEMA)
