"""What Delta notes of char(n) and varchar(n), as limits of texts."""

import pytest

from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.schema.types import (
    STRING,
    TYPE_TEXT,
    StructField,
    StructType,
    TextLimit,
    text_limits,
)


def noted(text, name="c"):
    return StructField(name, STRING, metadata={TYPE_TEXT: text})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("char(5)", [("c", "char(5)", 5)]),
        ("varchar(20)", [("c", "varchar(20)", 20)]),
        ("string", []),
        ("array<char(2)>", [("c.element", "char(2)", 2)]),
        ("map<varchar(2),char(3)>", [("c.key", "varchar(2)", 2), ("c.value", "char(3)", 3)]),
        ("struct<>", []),
        (
            "struct<x:varchar(2),`a:b``<`:array<struct<d:decimal(10,2),y:char(1)>>>",
            [("c.x", "varchar(2)", 2), ("c.a:b`<.element.y", "char(1)", 1)],
        ),
    ],
)
def test_limits(text, found):
    limits = text_limits(StructType((noted(text),)))
    assert [(one.path, one.type, one.length) for one in limits] == found


@pytest.mark.parametrize(
    "text", ["", "array<", "struct<x>", "char(2)>", "map<char(1)>", "struct<x:"]
)
def test_what_is_not_understood(text):
    with pytest.raises(UnsupportedFeatureError, match="which is not understood"):
        text_limits(StructType((noted(text),)))


def test_a_note_inside_of_a_struct():
    inner = StructType((noted("varchar(3)", "x"),))
    assert text_limits(StructType((StructField("s", inner), StructField("t", STRING)))) == [
        TextLimit(("s", "x"), "varchar(3)", 3)
    ]
