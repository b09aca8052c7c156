"""Which schemas rows may have that are read by another one."""

import pytest

from deltasql.protocol.schema.columns import PHYSICAL_NAME, ReadSchema
from deltasql.protocol.schema.types import ArrayType, MapType, Primitive, StructField, StructType

LONG, TEXT = Primitive("long"), Primitive("string")


def columns(*fields, partition=(), mode="none") -> ReadSchema:
    return ReadSchema(StructType(fields), partition, mode)


def col(name, kind=LONG, *, nullable=True, physical=None) -> StructField:
    return StructField(name, kind, nullable, {PHYSICAL_NAME: physical} if physical else {})


NOW = columns(col("id"), col("v", TEXT))


def test_the_same_and_fewer_columns_can_be_read():
    assert NOW.misfit(NOW) is None
    assert NOW.misfit(columns(col("v", TEXT))) is None
    assert NOW.misfit(columns(col("id", nullable=False), col("v", TEXT))) is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (columns(col("id"), col("v", TEXT), col("w")), "column w is not known"),
        (columns(col("id"), col("v")), "column v is of type long, not string"),
        (columns(col("id"), col("v", TEXT), partition=("v",)), "partitioned otherwise"),
        (columns(col("id"), col("v", StructType((col("x"),)))), "column v is of type"),
    ],
)
def test_what_cannot_be_read(written, said):
    assert said in NOW.misfit(written)


def test_nulls_where_none_may_be():
    strict = columns(col("id", nullable=False))
    assert "may be null" in strict.misfit(columns(col("id")))
    assert "missing" in strict.misfit(columns())


def test_a_column_that_was_dropped_and_made_anew():
    now = columns(col("id", physical="a"), mode="name")
    assert now.misfit(columns(col("id", physical="a"), mode="name")) is None
    assert "made anew" in now.misfit(columns(col("id", physical="b"), mode="name"))
    # a table that began to map its columns keeps their names in its files
    upgraded = columns(col("id", physical="id"), mode="name")
    assert upgraded.misfit(columns(col("id"))) is None


def test_nulls_inside():
    loose, strict = ArrayType(LONG), ArrayType(LONG, contains_null=False)
    assert columns(col("c", loose)).misfit(columns(col("c", strict))) is None
    assert "elements of c" in columns(col("c", strict)).misfit(columns(col("c", loose)))
    loose, strict = MapType(TEXT, LONG), MapType(TEXT, LONG, value_contains_null=False)
    assert "values of c" in columns(col("c", strict)).misfit(columns(col("c", loose)))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: StructType((col("s", inner),)),
        ArrayType,
        lambda inner: MapType(TEXT, inner),
        lambda inner: MapType(inner, TEXT),
    ],
)
def test_below_too(wrap):
    old, new = StructType((col("x"),)), StructType((col("x"), col("y")))
    assert columns(col("c", wrap(new))).misfit(columns(col("c", wrap(old)))) is None
    assert "not known" in columns(col("c", wrap(old))).misfit(columns(col("c", wrap(new))))
