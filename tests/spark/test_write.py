"""spark.write: every mode and option, judged by Delta Spark, deltalake and our own scan."""

from decimal import Decimal

import pyarrow as pa
import pytest

import deltasql
from builders import a_table, ids, paths, rows
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    InvalidCommitError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
)
from deltasql.spark import write
from spark_frames import (
    COLUMNS,
    MANY,
    a_big_frame,
    a_frame,
    adds,
    expect_equal_everywhere,
    native_paths,
)

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def catalog_uri(tmp_path):
    """SQLite; that the databases make no difference is shown in test_write_databases.py."""
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


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
    assert write(frame, catalog_uri, "fresh", mode="error", location=place, partition_by="day") == 0
    with pytest.raises(TableExistsError):
        write(frame, catalog_uri, "fresh", mode="errorifexists", location=place)
    assert write(frame, catalog_uri, "fresh", mode="ignore", location=place) == 0
    table = catalog.table("fresh")
    assert table.snapshot().metadata.partition_columns == ["day"]
    assert all(field.nullable for field in table.schema.fields)
    assert [row["id"] for row in expect_equal_everywhere(table)] == [1]


def test_a_new_table_by_a_uri_that_names_it(session, catalog_uri, tmp_path):
    mark = "&" if "?" in catalog_uri else "?"
    uri = f"{catalog_uri}{mark}table=big"
    assert write(a_big_frame(session), uri, location=str(tmp_path / "big"), mode="overwrite") == 0
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
    assert [add["dataChange"] for add in adds(place, 1)] == [False] * 4
