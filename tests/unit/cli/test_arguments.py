"""Arguments become values at the door, or are refused there."""

import json
from datetime import UTC, datetime

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.cli.app import parse_pairs
from deltasql.cli.arguments import Instant, Size, check_at, parse_column, read_schema
from deltasql.errors import BadArgumentError, SchemaError
from deltasql.protocol.schema.types import Decimal, Primitive, StructField


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id:long", StructField("id", Primitive("long"), True)),
        ("id:BIGINT not null", StructField("id", Primitive("long"), False)),
        ("a:b:text", StructField("a:b", Primitive("string"), True)),
        ("x:decimal(10,2)", StructField("x", Decimal(10, 2), True)),
        ("t:timestamp_ntz", StructField("t", Primitive("timestamp_ntz"), True)),
    ],
)
def test_a_column_is_a_name_and_a_type(text, field):
    assert parse_column(text) == field


def test_other_columns_are_refused():
    for text in ("id", ":long"):
        with pytest.raises(BadArgumentError, match="NAME:TYPE"):
            parse_column(text)
    with pytest.raises(SchemaError, match="id"):
        parse_column("id:frob")


def test_a_schema_comes_from_parquet_or_json(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    (tmp_path / "x.json").write_text(json.dumps({"type": "struct", "fields": fields}))
    expected = (StructField("id", Primitive("long"), True),)
    for name in ("x.parquet", "x.json"):
        assert read_schema(str(tmp_path / name)).fields == expected


@pytest.mark.parametrize("name", ["none.json", "none.parquet", "bad.json", "bad.parquet"])
def test_a_schema_file_that_cannot_be_read_is_named(tmp_path, name):
    for kind in ("json", "parquet"):
        (tmp_path / f"bad.{kind}").write_bytes(b"\xff\x00")
    with pytest.raises(BadArgumentError, match=name):
        read_schema(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "size"), [("5", 5), ("128MB", 128_000_000), ("64MiB", 2**26), ("1 gb", 10**9)]
)
def test_sizes(text, size):
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "0", "x", "-1", "1tb", "1.5mb"])
def test_other_sizes_are_refused(text):
    with pytest.raises(click.BadParameter):
        Size().convert(text, None, None)


def test_a_time_without_an_offset_is_utc():
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00Z"):
        assert Instant().convert(text, None, None) == noon
    with pytest.raises(click.BadParameter):
        Instant().convert("yesterday", None, None)


def test_version_and_timestamp_exclude_each_other():
    check_at(1, None)
    with pytest.raises(BadArgumentError):
        check_at(1, datetime.now(UTC))


def test_pairs_never_show_their_value():
    assert parse_pairs(("a=1", "b=x=y"), "--set") == {"a": "1", "b": "x=y"}
    for pairs in (("canary",), ("=canary",), ("a=canary", "a=canary")):
        with pytest.raises(BadArgumentError) as caught:
            parse_pairs(pairs, "--set")
        assert "canary" not in str(caught.value)
