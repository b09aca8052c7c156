"""Folder names of Spark's writer, read back as the log spells partition values."""

import pytest

from deltasql.errors import CorruptDataError, SchemaError
from deltasql.protocol.schema.types import Decimal, Primitive, StructField
from deltasql.spark.write.parquet_output import folder_values


def value(folder, kind):
    field = StructField("p", kind if isinstance(kind, Decimal) else Primitive(kind))
    return folder_values([folder], [field], "none")["p"]


@pytest.mark.parametrize(
    ("folder", "kind", "told"),
    [
        ("p=a b", "string", "a b"),
        ("p=x%2Fy%25", "string", "x/y%"),
        ("p=%252F", "string", "%2F"),
        ("p=a=b", "string", "a=b"),
        ("p=ünï", "string", "ünï"),
        ("p=__HIVE_DEFAULT_PARTITION__", "string", None),
        ("p=__HIVE_DEFAULT_PARTITION__", "long", None),
        ("p=-5", "integer", "-5"),
        ("p=true", "boolean", "true"),
        ("p=2024-02-29", "date", "2024-02-29"),
        ("p=2024-01-02 03%3A04%3A05.5", "timestamp", "2024-01-02T03:04:05.500000Z"),
        ("p=2024-01-02 03%3A04%3A05.5", "timestamp_ntz", "2024-01-02 03:04:05.5"),
        ("p=1.500", Decimal(9, 3), "1.500"),
        ("p=NaN", "double", "NaN"),
    ],
)
def test_values(folder, kind, told):
    assert value(folder, kind) == told


def test_a_year_without_a_spelling_is_refused():
    with pytest.raises(SchemaError, match="cannot spell"):
        value("p=+10000-01-01", "date")


@pytest.mark.parametrize("folders", [[], ["q=1"], ["p=1", "q=2"]])
def test_folders_of_other_columns_are_refused(folders):
    with pytest.raises(CorruptDataError):
        folder_values(folders, [StructField("p", Primitive("long"))], "none")
