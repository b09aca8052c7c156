"""spark.write: constraints, odd partitions and statistics of what Spark's writer leaves."""

import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from builders import a_table, ids, rows
from deltasql.errors import ConstraintViolationError, SchemaError, UnsupportedFeatureError
from deltasql.spark import write
from readers import read_deltalake, read_deltasql, sort_rows
from spark_frames import MANY, a_big_frame, a_frame, adds, expect_equal_everywhere, native_paths

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def catalog_uri(tmp_path):
    """SQLite; that the databases make no difference is shown in test_write_databases.py."""
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


@pytest.mark.parametrize("make", [a_frame, a_big_frame])
def test_constraints(session, catalog, catalog_uri, tmp_path, make):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table = a_table(catalog, tmp_path, schema=schema, partition_by=[])
    table.alter(properties={"delta.constraints.positive": "id > 0"})
    good = make(session, 1).select("id", "name")
    write(good, catalog_uri, "orders")
    bad = {
        "1 rows break the constraint positive": "if(id = 2, -5, id) as id",
        "1 rows have no value in the column id": "if(id = 2, null, id) as id",
    }
    for told, column in bad.items():
        rows_of = make(session, 2).selectExpr(column, "name")
        with pytest.raises(ConstraintViolationError, match=told):
            write(rows_of, catalog_uri, "orders")
    assert table.version == 2
    assert len(list(tmp_path.glob("lake-orders-*/w-*"))) == len(
        {p[:20] for p in native_paths(table)}
    )


def test_a_constraint_that_only_spark_can_check(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path, partition_by=[])
    table.alter(properties={"delta.constraints.short": "length(name) + 1 < 4"})
    with pytest.raises(UnsupportedFeatureError):
        table.append(rows(1))
    assert write(a_frame(session, 1), catalog_uri, "orders") == 2
    with pytest.raises(ConstraintViolationError, match="short"):
        write(a_frame(session, 1, 100), catalog_uri, "orders")


def test_nested_not_null(session, catalog, catalog_uri, tmp_path):
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("s", inner),
            ("l", pa.list_(pa.field("element", inner, nullable=False))),
        ]
    )
    table = a_table(catalog, tmp_path, schema=schema, partition_by=[])
    full = session.range(MANY).where("id >= 0")
    good = "named_struct('a', id)"
    write(
        full.selectExpr("id", f"if(id = 3, null, {good}) as s", f"array({good}) as l"),
        catalog_uri,
        "orders",
    )
    broken = "named_struct('a', if(id = 4, null, id))"
    for path, columns in {
        "s.a": [f"{broken} as s"],
        "l.element": [f"array({good}, if(id = 5, null, {good})) as l"],
    }.items():
        with pytest.raises(ConstraintViolationError, match=f"1 rows have no value.*{path}"):
            write(full.selectExpr("id", *columns), catalog_uri, "orders")
    assert table.version == 1
    # Spark's own toArrow cannot show a null struct whose member is never null
    assert sort_rows(read_deltalake(table.location)) == read_deltasql(table)


ODD = "p=x/y% #[é]:'\"\\ {}^"


def test_odd_partitions(session, catalog, catalog_uri, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("p_q", pa.string()), ("n", pa.int32())])
    table = a_table(catalog, tmp_path, schema=schema, partition_by=["p_q", "n"])
    texts = [ODD, "", None, " a b ", "ünï", "a.b", "%2F", "x.parquet", "_x", ".y"]
    data = [(number, text, None if number == 1 else number) for number, text in enumerate(texts)]
    frame = session.createDataFrame(data, "id long, p_q string, n int")
    write(frame, catalog_uri, "orders", max_records_per_file=10)
    assert len(native_paths(table)) == len(texts)
    found = {row["id"]: row["p_q"] for row in expect_equal_everywhere(table)}
    assert [found[number] for number in range(len(texts))] == [text or None for text in texts]
    assert ids(table, where="p_q = '%2F'") == [6]
    with pytest.raises(SchemaError, match="HIVE"):
        odd = session.createDataFrame(
            [(1, "__HIVE_DEFAULT_PARTITION__", 1)], "id long, p_q string, n int"
        )
        write(odd, catalog_uri, "orders", max_records_per_file=10)


def test_typed_partitions_in_another_zone(session, catalog, catalog_uri, tmp_path):
    kinds = {
        "t": (pa.timestamp("us", "UTC"), "timestamp"),
        "z": (pa.timestamp("us"), "timestamp_ntz"),
        "d": (pa.date32(), "date"),
        "c": (pa.decimal128(9, 3), "decimal(9,3)"),
        "b": (pa.bool_(), "boolean"),
        "f": (pa.float32(), "float"),
        "x": (pa.float64(), "double"),
    }
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in kinds.items())])
    table = a_table(catalog, tmp_path, schema=schema, partition_by=list(kinds))
    values = (
        "if(id = 9, null, timestamp_micros(1729989000123456 + id * 3600000000)) as t",
        "timestamp_ntz'2024-10-27 02:30:00' as z",
        "date'2024-02-29' as d",
        "1.5bd as c",
        "true as b",
        "cast(0.1 as float) as f",
        "1e20d as x",
    )
    # in Berlin, that night's hour from two to three came twice
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = session.range(10).selectExpr("id", *values)
        write(frame, catalog_uri, "orders", max_records_per_file=10)
        write(frame, catalog_uri, "orders")
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    found = expect_equal_everywhere(table)
    assert len({row["t"] for row in found}) == 10
    place = next(tmp_path.glob("lake-orders-*"))
    native = sorted(_values(add) for add in adds(place, 1))
    ours = sorted(_values(add) for add in adds(place, 2))
    assert native == ours
    assert '"t":"2024-10-27T00:30:00.123456Z"' in native[0]


def _values(add):
    return json.dumps(add["partitionValues"], sort_keys=True, separators=(",", ":"))


TYPES = {
    "b": "cast(id % 100 as byte)",
    "s": "cast(id as short)",
    "i": "cast(id as int)",
    "l": "if(id = 3, null, id * 1000000007)",
    "f": "cast(id / 8 as float)",
    "x": "if(id = 0, double('Infinity'), id * 1e19d)",
    "c9": "cast(id as decimal(9,2))",
    "c18": "cast(-id as decimal(18,4))",
    "c38": "cast(id as decimal(38,10)) * 0.0001bd",
    "t": "concat(repeat('é', 40), id)",
    "e": "concat(repeat('😀', 20), id)",
    "short_text": "if(id % 2 = 0, null, 'abc')",
    "y": "encode(string(id), 'utf-8')",
    "o": "id % 2 = 0",
    "d": "date_add(date'1969-12-25', cast(id as int))",
    "u": "timestamp_micros(1700000000123456 + id)",
    "z": "timestamp_ntz'2024-01-02 03:04:05.123456'",
    "nothing": "cast(null as long)",
    "n": "named_struct('a', id, 'b', named_struct('c', if(id = 1, null, string(id))))",
    "a": "array(id, id + 1)",
    "m": "map('k', id)",
}


def test_statistics_mean_what_delta_spark_writes(session, catalog, catalog_uri, tmp_path):
    frame = session.range(50).selectExpr(*(f"{sql} as {name}" for name, sql in TYPES.items()))
    location = str(tmp_path / "typed")
    write(frame.coalesce(1), catalog_uri, "typed", location=location, max_records_per_file=1000)
    theirs = tmp_path / "theirs"
    frame.coalesce(1).write.format("delta").save(str(theirs))
    (ours,) = adds(tmp_path / "typed", 0)
    (delta,) = adds(theirs, 0)
    mine, other = (
        json.loads(ours["stats"], parse_float=Decimal),
        json.loads(delta["stats"], parse_float=Decimal),
    )
    assert mine["numRecords"] == other["numRecords"]
    # Delta cuts a minimum by characters, we by UTF-16 units: both are true bounds
    assert other["minValues"].pop("e").startswith(mine["minValues"].pop("e"))
    assert mine["minValues"] == other["minValues"]
    assert mine["maxValues"] == other["maxValues"]
    assert mine["nullCount"] == other["nullCount"]
    expect_equal_everywhere(catalog.table("typed"))


def test_not_a_number_has_no_bounds(session, catalog, catalog_uri, tmp_path):
    frame = session.range(9).selectExpr("id", "if(id = 4, double('NaN'), 1.5d) as x")
    write(frame, catalog_uri, "odd", location=str(tmp_path / "odd"), max_records_per_file=1000)
    bounds = [json.loads(add["stats"])["minValues"].get("x") for add in adds(tmp_path / "odd", 0)]
    assert sorted(bounds, key=str) == [1.5, None]
    assert len(catalog.table("odd").scan(where="x = 1.5").to_arrow()) == 8


def test_dates_are_kept(session, catalog, catalog_uri, tmp_path):
    frame = session.createDataFrame(
        [(1, date(1, 1, 1), datetime(1600, 1, 1)), (2, date(9999, 12, 31), datetime(9999, 1, 1))],
        "id long, d date, u timestamp",
    )
    write(frame, catalog_uri, "old", location=str(tmp_path / "old"), max_records_per_file=10)
    assert ids(catalog.table("old"), where="d = '0001-01-01'") == [1]
    expect_equal_everywhere(catalog.table("old"))
