"""spark.write: every mode and option, judged by Delta Spark, deltalake and our own scan."""

import json
from datetime import date, datetime
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_spark
import deltasql
from builders import a_table, ids, paths, rows
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    ConstraintViolationError,
    InvalidCommitError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltasql.spark import write
from deltasql.spark.small_frames import SMALL_ROWS
from readers import read_deltalake, read_deltasql, sort_rows

pytestmark = pytest.mark.usefixtures("spark")
COLUMNS = "id long, name string, day string"
# Too many for the driver, and always as many files: what Spark's own writer makes.
MANY = SMALL_ROWS + 1


@pytest.fixture
def session(spark):
    return spark.spark


@pytest.fixture
def catalog_uri(tmp_path):
    """SQLite; that the databases make no difference is shown in test_write_databases.py."""
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as opened:
        yield opened


def a_frame(session, *numbers, day="a"):
    return session.createDataFrame([(n, f"n{n}", day) for n in numbers], COLUMNS)


def a_big_frame(session, first=0, day="a"):
    """Rows that the driver does not fetch: a filter may hide what it costs to get them."""
    return (
        session.range(first, first + MANY, numPartitions=2)
        .where("id >= 0")
        .selectExpr("id", "concat('n', id) as name", f"'{day}' as day")
    )


def expect_equal_everywhere(table):
    """All three readers see the same rows; returns them."""
    ours = read_deltasql(table)
    place = unquote(table.location.removeprefix("file://"))
    assert sort_rows(read_deltalake(place)) == ours
    delta_spark.forget()
    assert delta_spark.read_delta_spark(place) == ours
    return ours


def native_paths(table):
    return {path for path in paths(table) if path.startswith("w-")}


def test_append_by_the_driver_and_by_spark(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    assert write(a_frame(session, 1, 2), catalog_uri, "orders") == 1
    assert native_paths(table) == set()
    assert write(a_big_frame(session, 10, day="b"), catalog_uri, "orders") == 2
    assert len(native_paths(table)) == 2
    found = expect_equal_everywhere(table)
    assert [row["id"] for row in found if row["day"] == "a"] == [1, 2]
    assert len(found) == MANY + 2
    note = table.history()[0]
    assert note.operation == "WRITE"


def test_overwrite(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1, 2, 3))
    write(a_big_frame(session), catalog_uri, "orders", mode="overwrite")
    assert ids(table) == list(range(MANY))
    write(a_frame(session, 7), catalog_uri, "orders", mode="Overwrite")
    assert ids(table) == [7]


def test_error_and_ignore(session, catalog, catalog_uri, tmp_path):
    place = str(tmp_path / "new table")
    frame = a_frame(session, 1)
    with pytest.raises(TableNotFoundError) as caught:
        write(frame, catalog_uri, "fresh")
    assert "location" in caught.value.advice
    assert write(frame, catalog_uri, "fresh", mode="error", location=place, partition_by="day") == 1
    with pytest.raises(TableExistsError):
        write(frame, catalog_uri, "fresh", mode="errorifexists", location=place)
    assert write(frame, catalog_uri, "fresh", mode="ignore", location=place) == 1
    table = catalog.table("fresh")
    assert table.snapshot().metadata.partition_columns == ["day"]
    assert all(field.nullable for field in table.schema.fields)
    assert [row["id"] for row in expect_equal_everywhere(table)] == [1]


def test_a_new_table_by_a_uri_that_names_it(session, catalog_uri, tmp_path):
    mark = "&" if "?" in catalog_uri else "?"
    uri = f"{catalog_uri}{mark}table=big"
    assert write(a_big_frame(session), uri, location=str(tmp_path / "big"), mode="overwrite") == 1
    with deltasql.connect(catalog_uri) as catalog:
        assert len(expect_equal_everywhere(catalog.table("big"))) == MANY


def test_another_place_or_partitioning_is_refused(session, catalog, catalog_uri, tmp_path):
    a_table(catalog, tmp_path)
    with pytest.raises(BadArgumentError):
        write(a_frame(session, 1), catalog_uri, "orders", location=str(tmp_path / "other"))
    with pytest.raises(SchemaError):
        write(a_frame(session, 1), catalog_uri, "orders", partition_by=["name"])


def test_replace_where(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1, day="a"))
    table.append(rows(2, day="b"))
    options = {"replaceWhere": "day = 'b'"}
    for frame in (a_frame(session, 3, day="b"), a_big_frame(session, 100, day="b")):
        write(frame, catalog_uri, "orders", mode="overwrite", options=options)
        assert ids(table)[0] == 1
        assert 2 not in ids(table)
        with pytest.raises(InvalidCommitError, match="outside"):
            write(a_frame(session, 4), catalog_uri, "orders", mode="overwrite", options=options)
    version = table.version
    with pytest.raises(BadPredicateError):
        write(a_frame(session, 4), catalog_uri, "orders", mode="overwrite", replace_where="id > 1")
    assert table.version == version
    expect_equal_everywhere(table)


def test_dynamic_overwrite(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1, day="a"))
    table.append(rows(2, day="b"))
    write(
        a_big_frame(session, 100, day="b"),
        catalog_uri,
        "orders",
        mode="overwrite",
        partition_overwrite_mode="dynamic",
    )
    assert ids(table)[:2] == [1, 100]
    before = paths(table)
    nothing = a_frame(session, 5).where("id < 0")
    write(nothing, catalog_uri, "orders", mode="overwrite", partition_overwrite_mode="dynamic")
    assert paths(table) == before


def test_no_rows(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path, partition_by=[])
    table.append(rows(1))
    for frame in (session.createDataFrame([], COLUMNS), a_big_frame(session).where("id < 0")):
        write(frame, catalog_uri, "orders")
        assert ids(table) == [1]
    write(a_big_frame(session).where("id < 0"), catalog_uri, "orders", mode="overwrite")
    assert ids(table) == []
    assert paths(table) == set()


@pytest.mark.parametrize("make", [a_frame, a_big_frame])
def test_merge_schema(session, catalog, catalog_uri, tmp_path, make):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    wider = make(session, 2).selectExpr("ID", "day", "name", "cast(7 as int) as extra")
    with pytest.raises(SchemaError, match="extra") as caught:
        write(wider, catalog_uri, "orders")
    assert "merge_schema" in caught.value.advice
    assert table.version == 1
    write(wider, catalog_uri, "orders", options={"mergeSchema": "true"})
    assert table.schema.names == ["id", "name", "day", "extra"]
    found = {row["id"]: row["extra"] for row in expect_equal_everywhere(table)}
    assert (found[1], found[2]) == (None, 7)


@pytest.mark.parametrize("limit", [None, 1000])
def test_merge_schema_at_every_depth(session, catalog, catalog_uri, tmp_path, limit):
    inner = pa.struct([("a", pa.int64())])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("s", inner),
            ("l", pa.list_(inner)),
            ("m", pa.map_(pa.string(), inner)),
        ]
    )
    table = a_table(catalog, tmp_path, schema=schema, partition_by=[])
    table.append([{"id": 1, "s": {"a": 1}, "l": [{"a": 1}], "m": None}])
    new = "named_struct('b', nullif('x', ''), 'A', nullif(id, 9))"
    frame = session.range(2, 3).selectExpr("id", f"{new} as s", f"array({new}) as l")
    frame = frame.selectExpr("*", f"map('k', {new}) as m")
    with pytest.raises(SchemaError, match=r"s\.b"):
        write(frame, catalog_uri, "orders", max_records_per_file=limit)
    write(frame, catalog_uri, "orders", merge_schema=True, max_records_per_file=limit)
    one, two = expect_equal_everywhere(table)
    assert (one["s"], one["l"]) == ({"a": 1, "b": None}, [{"a": 1, "b": None}])
    assert (two["s"], two["l"]) == ({"a": 2, "b": "x"}, [{"a": 2, "b": "x"}])
    assert two["m"] == [("k", {"a": 2, "b": "x"})]


def test_overwrite_schema(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path, partition_by=[])
    table.append(rows(1))
    other = session.range(MANY).where("id >= 0").selectExpr("cast(id as string) as id", "1.5d as x")
    with pytest.raises(SchemaError):
        write(other, catalog_uri, "orders", mode="overwrite")
    write(other, catalog_uri, "orders", mode="overwrite", overwrite_schema=True)
    assert [(f.name, f.type.name) for f in table.schema.fields] == [
        ("id", "string"),
        ("x", "double"),
    ]
    assert len(expect_equal_everywhere(table)) == MANY


def test_missing_columns_and_wider_types(session, catalog, catalog_uri, tmp_path):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.decimal128(12, 2)),
            ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ("l", pa.list_(pa.struct([("x", pa.float64())]))),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("gone", pa.string()),
        ]
    )
    table = a_table(catalog, tmp_path, schema=schema, partition_by=[])
    for number, frame in enumerate((session.range(3), session.range(MANY).where("id >= 0"))):
        fitting = frame.selectExpr(
            "cast(id % 100 as int) as ID",
            "cast(id % 7 as decimal(5,1)) as price",
            "if(id = 1, null, named_struct('B', 'x', 'A', cast(id % 9 as short))) as s",
            "array(named_struct('x', cast(1.5 as float)), null) as l",
            "map('k', cast(id % 5 as int)) as m",
        )
        assert write(fitting, catalog_uri, "orders") == number + 1
    found = expect_equal_everywhere(table)
    assert len(found) == MANY + 3
    assert sum(row["s"] is None for row in found) == 2
    assert found[0]["s"] == {"a": 0, "b": "x"}
    assert found[0]["l"] == [{"x": 1.5}, None]
    assert found[0]["price"] == Decimal("0.00")
    assert found[0]["gone"] is None


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["cast(id as string) as id"], "id is of type long"),
        (["id", "id as name"], "name is of type string"),
        (["id", "id as ID"], "2 columns named id"),
        (["id", "array(1) as name"], "name is of type string"),
    ],
)
def test_what_does_not_fit_is_refused(session, tmp_path, columns, told):
    catalog_uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
    with pytest.raises(SchemaError, match=told):
        write(session.range(3).selectExpr(*columns), catalog_uri, "orders")
    with deltasql.connect(catalog_uri) as catalog:
        assert catalog.table("orders").version == 0


def test_a_write_by_transaction_id_is_done_once(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path)
    options = {"txnAppId": "job", "txnVersion": "3", "userMetadata": "first"}
    assert write(a_frame(session, 1), catalog_uri, "orders", options=options) == 1
    assert write(a_frame(session, 1), catalog_uri, "orders", options=options) == 1
    assert write(a_frame(session, 2), catalog_uri, "orders", commit_id="token") == 2
    assert write(a_frame(session, 2), catalog_uri, "orders", commit_id="token") == 2
    assert ids(table) == [1, 2]
    assert table.history()[1].user_metadata == "first"


def test_files_as_they_are_asked_for(session, catalog, catalog_uri, tmp_path):
    table = a_table(catalog, tmp_path, partition_by=[])
    frame = session.range(100).coalesce(1).selectExpr("id")
    options = {"maxRecordsPerFile": 30, "compression": "zstd", "dataChange": "false"}
    write(frame, catalog_uri, "orders", options=options)
    assert len(native_paths(table)) == 4
    assert all(path.endswith(".zstd.parquet") for path in native_paths(table))
    place = tmp_path / next(tmp_path.glob("lake-orders-*"))
    adds = _adds(place, 1)
    assert [add["dataChange"] for add in adds] == [False] * 4


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
    native = sorted(_values(add) for add in _adds(place, 1))
    ours = sorted(_values(add) for add in _adds(place, 2))
    assert native == ours
    assert '"t":"2024-10-27T00:30:00.123456Z"' in native[0]


def _values(add):
    return json.dumps(add["partitionValues"], sort_keys=True, separators=(",", ":"))


def _adds(place, version):
    text = (place / "_delta_log" / f"{version:020}.json").read_text()
    lines = (json.loads(line) for line in text.splitlines())
    return [line["add"] for line in lines if "add" in line]


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
    (ours,) = _adds(tmp_path / "typed", 1)
    (delta,) = _adds(theirs, 0)
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
    bounds = [json.loads(add["stats"])["minValues"].get("x") for add in _adds(tmp_path / "odd", 1)]
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
