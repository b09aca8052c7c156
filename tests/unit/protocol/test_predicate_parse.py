"""What filters may say, how it is typed, and how the rest is refused."""

import subprocess
import sys
from decimal import Decimal as Number

import pytest

from deltasql.errors import BadPredicateError
from deltasql.protocol.predicate import (
    And,
    ColumnComparison,
    Comparison,
    Constant,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    columns_of,
    parse_predicate,
)
from deltasql.protocol.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("b", BYTE),
        StructField("name", STRING),
        StructField("day", DATE),
        StructField("ts", TIMESTAMP),
        StructField("n", TIMESTAMP_NTZ),
        StructField("x", DOUBLE),
        StructField("d", Decimal(10, 2)),
        StructField("flag", BOOLEAN),
        StructField("bin", BINARY),
        StructField("s", StructType((StructField("we ird", INTEGER),))),
    )
)


def _parse(text):
    return parse_predicate(text, SCHEMA)


@pytest.mark.req("R37")
@pytest.mark.parametrize(
    "text", ["name not like 'a%'", "not name like 'a%'", "not (name like 'a%')", "name !like 'a%'"]
)
def test_every_way_to_say_not_like_is_a_negation(text):
    assert _parse(text) == Not(_parse("name like 'a%'"))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("id not in (1, 2)", "id in (1, 2)"),
        ("id not between 1 and 2", "id between 1 and 2"),
        ("id is not null", "id is null"),
        ("flag is not true", "flag is true"),
    ],
)
def test_a_negation_inside_of_an_operator_is_read(text, plain):
    assert _parse(text) == Not(_parse(plain))


def test_a_part_of_an_operator_that_is_not_read_is_refused():
    with pytest.raises(BadPredicateError, match="not supported"):
        _parse("id between symmetric 3 and 1")


def test_a_filter_becomes_typed_parts():
    found = _parse("day = '2026-01-01' AND (id > 5 OR name IN ('a','b')) AND NOT x IS NULL")
    assert isinstance(found, And)
    day, either, missing = found.parts
    assert (day.operator, day.value) == ("=", 20454)
    assert isinstance(either, Or)
    assert isinstance(either.parts[1], InList)
    assert missing == Not(IsNull(next(columns_of(missing))))


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("5 < id", ">", 5),
        ("id <> -3", "!=", -3),
        ("id = 10L", "=", 10),
        ("id <=> 4", "<=>", 4),
        ("d >= 1.5", ">=", Number("1.50")),
        ("d > 1.005", ">", Number("1.00")),
        ("d < 1.005", "<=", Number("1.00")),
        ("b > 300", "<", -128),
        ("b < 300", ">=", -128),
        ("b = 1.5", "<", -128),
        ("b != 1.5", ">=", -128),
        ("id = 99999999999999999999", "<", -(2**63)),
        ("x > '1.5'", ">", 1.5),
        ("x < ' -Infinity'", "<", float("-inf")),
        ("x = -double('inf')", "=", float("-inf")),
        ("x = 1.5F", "=", 1.5),
        ("name = 'it''s'", "=", "it's"),
        ('name = "two"', "=", "two"),
        ("day > DATE'1969-12-31'", ">", -1),
        ("ts = timestamp '1970-01-01T02:00:00+02:00'", "=", 0),
        ("ts = '1970-01-01 00:00:00.000001'", "=", 1),
        ("n < '1970-01-02'", "<", 86_400_000_000),
        ("s.`we ird` = 3", "=", 3),
        ("S.`WE IRD` = 3", "=", 3),
        ("flag", "=", True),
        ("flag IS FALSE", "<=>", False),
    ],
)
def test_literals_take_the_type_of_their_column(text, operator, value):
    found = _parse(text)
    assert isinstance(found, Comparison)
    assert (found.operator, found.value) == (operator, value)
    assert type(found.value) is type(value)


def test_null_makes_a_comparison_unknown_and_a_safe_one_a_test():
    assert _parse("id = NULL") == Constant(None)
    assert isinstance(_parse("id <=> NULL"), IsNull)
    assert _parse("id IN (1, NULL, 2.5)").values == (1,)
    assert _parse("id IN (1, NULL)").has_null


def test_columns_may_be_compared_with_each_other():
    assert isinstance(_parse("id >= b"), ColumnComparison)


def test_the_prefix_of_a_pattern_ends_at_the_first_wildcard():
    assert _parse(r"name LIKE 'a\\_b%c'") == Like(next(columns_of(_parse("name = ''"))), r"a\_b%c")
    assert _parse(r"name LIKE 'a\\_b%c'").prefix == "a_b"


def test_a_long_chain_is_flat():
    found = _parse(" OR ".join(f"id = {number}" for number in range(2000)))
    assert len(found.parts) == 2000


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("nope = 3", "nope"),
        ("id + 1 = 3", "id \\+ 1"),
        ("upper(name) = 'A'", "UPPER"),
        ("id IN (SELECT 1)", "SELECT"),
        ("name RLIKE 'x'", "RLIKE"),
        ("id = 'seven'", "seven"),
        ("id = 'NaN'", "NaN"),
        ("isnan(id)", "ISNAN"),
        ("x = 1e400", "1e400"),
        ("name = 5", "5"),
        ("day = '2026-13-01'", "2026-13-01"),
        ("n = '2020-01-01T00:00:00Z'", "2020"),
        ("bin = X'00'", "X'00'"),
        ("id = x", "id = x"),
        ("id = CAST(5.7 AS INT)", "CAST"),
        ("id; DROP TABLE t", "DROP"),
        ("((", "missing"),
        ("'a", "not SQL"),
        ("id > 1 AND", "missing"),
        ("", "empty"),
        ("(" * 3000 + "id = 1" + ")" * 3000, "deep"),
        ("name LIKE 'x\\\\'", "LIKE"),
        ("s = 3", "IS NULL"),
        ("id.x = 3", "id.x"),
    ],
)
def test_the_rest_is_refused_and_named(text, word):
    with pytest.raises(BadPredicateError, match=word) as caught:
        _parse(text)
    assert "sqlglot" not in caught.value.message


def test_importing_filters_loads_neither_the_parser_nor_arrow():
    code = (
        "import sys, deltasql.protocol.predicate; "
        "print([m for m in ('sqlglot', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
