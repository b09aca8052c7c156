"""A schema is read whole, printed as it was, and refused by column."""

import json

import pytest

from deltasql.errors import SchemaError
from deltasql.protocol.schema.columns import (
    check_names,
    find_column,
    has_default,
    invariant,
    is_generated,
    is_identity,
    leaves,
    mapping_mode,
    physical_name,
)
from deltasql.protocol.schema.types import (
    LONG,
    STRING,
    ArrayType,
    Decimal,
    MapType,
    StructField,
    StructType,
    parse_schema,
    print_schema,
)


def _text(*fields):
    return json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))


def _field(name, kind, *, nullable=True, **metadata):
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


NESTED = (
    _text(
        _field("id", "long", nullable=False, comment="the key", **{"delta.columnMapping.id": 1}),
        _field("price", "decimal(10,2)"),
        _field("at", "timestamp_ntz"),
        _field("v", "variant"),
        _field("nothing", "void"),
        _field("tags", {"type": "array", "elementType": "string", "containsNull": False}),
        _field(
            "deep",
            {
                "type": "map",
                "keyType": "string",
                "valueType": {"type": "struct", "fields": [_field("ü", "date")]},
                "valueContainsNull": True,
            },
        ),
    )
    .encode()
    .decode("unicode_escape")
)


def test_printing_gives_the_text_that_was_parsed():
    assert print_schema(parse_schema(NESTED)) == NESTED


def test_types_are_values():
    schema = parse_schema(NESTED)
    assert [field.type for field in schema.fields[:2]] == [LONG, Decimal(10, 2)]
    assert schema.fields[5].type == ArrayType(STRING, contains_null=False)
    assert isinstance(schema.fields[6].type, MapType)
    assert hash(schema) == hash(parse_schema(NESTED))


def test_unknown_keys_of_a_field_survive():
    text = _text({**_field("a", "long"), "new": {"x": 1}})
    assert print_schema(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("timestamp_nanos", "timestamp_nanos"),
        ("decimal(39,2)", "out of range"),
        ("decimal(3,4)", "out of range"),
        ("interval day", "interval day"),
        ({"type": "set", "elementType": "long"}, "set"),
        (5, "no type"),
        ({"type": "array"}, "elementType"),
    ],
)
def test_an_unknown_type_is_refused_with_its_column(kind, word):
    with pytest.raises(SchemaError, match=r"s\.bad") as caught:
        parse_schema(_text(_field("s", {"type": "struct", "fields": [_field("bad", kind)]})))
    assert word in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"long"', "null", "[" * 100_000, '{"type":"struct"}']
)
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_leaves_come_in_schema_order_with_both_names():
    inner = StructType(
        (StructField("b", LONG, True, {"delta.columnMapping.physicalName": "col-2"}),)
    )
    schema = StructType(
        (
            StructField("a", inner, False, {"delta.columnMapping.physicalName": "col-1"}),
            StructField("c", ArrayType(LONG), True, {"delta.columnMapping.physicalName": "col-3"}),
        )
    )
    found = [(leaf.path, leaf.physical) for leaf in leaves(schema, "name")]
    assert found == [(("a", "b"), ("col-1", "col-2")), (("c",), ("col-3",))]


def test_a_mapped_column_without_a_physical_name_is_refused():
    with pytest.raises(SchemaError, match="lost"):
        physical_name(StructField("lost", LONG), "id")


def test_mapping_mode_is_read_from_the_configuration():
    assert mapping_mode({}) == "none"
    assert mapping_mode({"delta.columnMapping.mode": "Name"}) == "name"
    with pytest.raises(SchemaError, match="sideways"):
        mapping_mode({"delta.columnMapping.mode": "sideways"})


@pytest.mark.parametrize("names", [("a", "A"), ("a b",), ("",), ("x=y",)])
def test_names_that_delta_cannot_hold_are_refused(names):
    schema = StructType((StructField("s", StructType(tuple(StructField(n, LONG) for n in names))),))
    with pytest.raises(SchemaError):
        check_names(schema)


def test_awkward_names_are_fine_where_columns_are_mapped():
    check_names(StructType((StructField("a b", LONG),)), "name")


def test_columns_are_found_ignoring_case_but_exactly_first():
    schema = StructType((StructField("ID", LONG), StructField("id", STRING)))
    assert find_column(schema, ("id",)).type == STRING
    assert find_column(schema, ("Id",)).type == LONG
    with pytest.raises(SchemaError, match=r"id\.x"):
        find_column(schema, ("id", "x"))


def test_markers_are_read_from_metadata():
    changes = [{"toType": "long", "fromType": "integer"}]
    field = StructField(
        "a",
        LONG,
        True,
        {
            "delta.generationExpression": "b + 1",
            "delta.identity.start": 1,
            "CURRENT_DEFAULT": "3",
            "delta.invariants": "{}",
            "delta.typeChanges": changes,
        },
    )
    assert (is_generated(field), is_identity(field), has_default(field)) == (True, True, True)
    assert invariant(field) == "{}"
