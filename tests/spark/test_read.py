"""Spark reads what SQL says: the rows and the very schema that Delta Spark shows."""

import datetime as dt
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import deltasql.spark
from builders import NO_MIRROR, a_table, rows
from corpora import EXPECTED, needs_corpora
from deltasql.errors import (
    BadArgumentError,
    BadPredicateError,
    CorruptDataError,
    SchemaMissingError,
    TableNotFoundError,
    VersionNotFoundError,
)
from deltasql.spark.read.read_marks import _remembered
from readers import read_deltasql, sort_rows

pytestmark = pytest.mark.req("R26")
UTC = dt.UTC
TYPES = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([2**40, 5, None], pa.int64()),
        "f": pa.array([1.5, float("nan"), None], pa.float32()),
        "d": pa.array([Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(9, 2)),
        "t": pa.array(
            [dt.datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)] * 3, pa.timestamp("us", "UTC")
        ),
        "n": pa.array([dt.datetime(1969, 1, 2), None, None], pa.timestamp("us")),
        "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
        "b": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "y": pa.array([True, False, None]),
        "s": pa.array([{"a": 1, "z": ["x"]}, None, {"a": None, "z": []}]),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "p": ["a b", None, "x/y%é"],
    }
)


@pytest.fixture
def catalog(uri):
    with deltasql.connect(uri) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def orders(catalog, tmp_path):
    return a_table(catalog, tmp_path)


@pytest.fixture
def typed(catalog, tmp_path):
    table = a_table(catalog, tmp_path, "typed", schema=TYPES.schema, partition_by=["p"])
    table.append(TYPES)
    return table


def collected(frame):
    return sort_rows(frame.toArrow().to_pylist())


def named(uri, name):
    return f"{uri}{'&' if '?' in uri else '?'}table={name}"


def test_rows_and_schema_are_those_of_delta_spark(session, catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path, "typed", schema=TYPES.schema, partition_by=["p"])
        table.append(TYPES)
    frame = deltasql.spark.read(session, catalog_uri, "typed")
    assert deltasql.spark.explain(catalog_uri, "typed").way == "native"
    source = session.read.format("deltasql").load(named(catalog_uri, "typed"))
    assert repr(collected(source)) == repr(collected(frame))
    delta_spark.find_jars()
    other = session.read.format("delta").load(table.location)
    assert frame.schema.json() == source.schema.json() == other.schema.json()
    assert repr(collected(frame)) == repr(collected(other))


def test_older_versions_and_times(session, uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    for number in range(1, 4):
        table.append(rows(number))
    table.delete("day = 'a'")
    moment = table.history()[1].committed_at

    def ids(**options):
        frame = deltasql.spark.read(session, uri, "orders", **options)
        return sorted(row.id for row in frame.collect())

    assert ids() == []
    assert ids(version=2) == [1, 2]
    assert ids(timestamp=moment) == [1, 2, 3]
    source = session.read.format("deltasql").option("versionAsOf", 2).option("table", "orders")
    assert source.load(uri).count() == 2
    with pytest.raises(VersionNotFoundError):
        ids(version=9)


def test_a_frame_stays_the_version_it_was_planned_on(session, uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    frame = deltasql.spark.read(session, uri, "orders")
    table.append(rows(2))
    table.overwrite(rows(3))
    assert [row.id for row in frame.collect()] == [1]


def test_a_filter_skips_files_in_sql_and_is_applied(session, uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    for number in range(8):
        table.append(rows(number, number + 100, day=f"d{number % 2}"))
    where = "day = 'd1' and id < 4"
    assert deltasql.spark.explain(uri, "orders", where=where).files.num_rows == 2
    found = deltasql.spark.read(session, uri, "orders", where=where, columns=["id"])
    assert found.columns == ["id"]
    assert sorted(row.id for row in found.collect()) == [1, 3]
    assert len(found.inputFiles()) == 2
    source = session.read.format("deltasql").options(where="day = 'd1'", columns="day,id")
    assert min(source.load(named(uri, "orders")).collect()) == ("d1", 1)


def test_partitions_are_pruned_by_spark_too(session, uri, typed):
    plan = (
        deltasql.spark.read(session, uri, "typed")
        .where("p = 'x/y%é'")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "PartitionFilters: [isnotnull(p" in plan


def test_an_empty_table_has_its_columns(session, uri, catalog, tmp_path):
    a_table(catalog, tmp_path)
    frame = deltasql.spark.read(session, uri, "orders")
    assert frame.columns == ["id", "name", "day"]
    assert frame.count() == 0


def test_columns_that_may_not_be_null_are_shown_so(session, uri, catalog, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = a_table(catalog, tmp_path, "strict", schema=schema, partition_by=[])
    table.append(pa.table({"id": [1], "v": ["x"]}, schema=schema))
    for frame in (
        deltasql.spark.read(session, uri, "strict"),
        session.read.format("deltasql").load(named(uri, "strict")),
    ):
        assert [field.nullable for field in frame.schema] == [False, True]
        assert collected(frame) == [{"id": 1, "v": "x"}]


def test_a_missing_file_is_told_and_not_passed_over(session, uri, catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(CorruptDataError, match="1 of the 2 files to read are missing"):
        deltasql.spark.read(session, uri, "orders")


def test_files_of_several_partitions_in_one_directory(session, uri, catalog, tmp_path):
    """Some writers give directories random names: the values are those of the log."""
    table = a_table(catalog, tmp_path)
    table.append(rows(1, day="a"))
    table.append(rows(2, day="b"))
    root = next(tmp_path.glob("lake-*"))
    adds = table.snapshot().files(["path", "size", "partition_values"]).to_pylist()
    moved = []
    for number, add in enumerate(adds):
        (root / add["path"]).rename(root / f"file-{number}.parquet")
        moved.append({**add, "new": f"file-{number}.parquet"})
    table.overwrite(rows())
    table.commit(
        [
            {
                "add": {
                    "path": one["new"],
                    "size": one["size"],
                    "partitionValues": {"day": "a" if '"a"' in one["partition_values"] else "b"},
                    "modificationTime": 1,
                    "dataChange": True,
                }
            }
            for one in moved
        ]
    )
    assert deltasql.spark.explain(uri, "orders").way != "native"
    frame = deltasql.spark.read(session, uri, "orders")
    assert sorted((row.id, row.day) for row in frame.collect()) == [(1, "a"), (2, "b")]


@pytest.fixture
def forgotten(session):
    """Views that end with the test: others share its session."""
    yield
    for views in _remembered(session).values():
        for view in views:
            session.catalog.dropTempView(view)


@pytest.mark.usefixtures("forgotten")
def test_every_table_becomes_a_view(session, uri, catalog, tmp_path):
    a_table(catalog, tmp_path).append(rows(1, 2))
    a_table(catalog, tmp_path, "shop.totals").append(rows(3))
    assert sorted(deltasql.spark.attach(session, uri)) == ["orders", "shop_totals"]
    found = session.sql("select o.id, t.id as other from orders o cross join shop_totals t")
    assert sorted(map(tuple, found.collect())) == [(1, 3), (2, 3)]


@pytest.mark.usefixtures("forgotten")
def test_a_transaction_sees_tables_and_not_their_views(session, uri, catalog, tmp_path):
    delta_spark.find_jars()
    a_table(catalog, tmp_path).append(rows(1, 2))
    a_table(catalog, tmp_path, "shop.totals").append(rows(3))
    deltasql.spark.attach(session, uri)
    catalog.table("orders").append(rows(5))
    with deltasql.spark.transaction(session, uri) as tx:
        tx.sql(
            "merge into orders t using (select id from orders) s on t.id = s.id "
            "when matched then update set id = t.id + 10"
        )
        with pytest.raises(BadArgumentError, match=r"is a view of the table shop\.totals"):
            tx.sql(
                "merge into orders t using shop_totals s on t.id = s.id when matched then delete"
            )
    frame = deltasql.spark.read(session, uri, "orders")
    assert sorted(row.id for row in frame.collect()) == [11, 12, 15]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"table": "nobody"}, TableNotFoundError, "nobody"),
        ({}, BadArgumentError, "No table is named"),
        ({"table": "orders", "versoin": 3}, BadArgumentError, "versoin"),
        ({"table": "orders", "columns": ["nope"]}, BadArgumentError, "nope"),
        ({"table": "orders", "where": "id >"}, BadPredicateError, None),
    ],
)
@pytest.mark.usefixtures("orders")
def test_what_does_not_fit_is_told(session, uri, given, error, said):
    with pytest.raises(error, match=said):
        deltasql.spark.read(session, uri, **given)


def test_a_catalog_that_is_not_there_is_not_made(session, tmp_path):
    place = tmp_path / "typo.db"
    with pytest.raises(SchemaMissingError, match="there is no such file"):
        deltasql.spark.read(session, f"deltasql://sqlite/{place}", "orders")
    with pytest.raises(Exception, match=r"error\[DS309\]: There is no catalog at"):
        session.read.format("deltasql").load(f"deltasql://sqlite/{place}?table=orders")
    assert list(tmp_path.iterdir()) == []


def test_a_source_tells_its_error_with_the_code(session, uri, catalog):
    with pytest.raises(Exception, match=r"error\[DS301\]: There is no table 'nobody'"):
        session.read.format("deltasql").load(named(uri, "nobody"))
    with pytest.raises(Exception, match="has no option 'colour'"):
        session.read.format("deltasql").option("colour", "red").load(named(uri, "x"))


PROPERTIES = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "by name": "'delta.columnMapping.mode' = 'name'",
    "by id": "'delta.columnMapping.mode' = 'id'",
}


def make(place, kind):
    """Let Delta Spark write a table; columns of a mapped one get other names later."""
    column = "ab" if kind == "vectors" else "`a b`"
    delta_spark.run(
        f"create table delta.`{place}` (id bigint not null, {column} string, "
        "s struct<x:int,y:string>, p date) using delta partitioned by (p) "
        f"tblproperties ({PROPERTIES[kind]})"
    )
    delta_spark.run(
        f"insert into delta.`{place}` select id, concat('n', id), "
        "named_struct('x', cast(id as int), 'y', 'z'), "
        "date_add(date'2024-01-01', cast(id % 3 as int)) from range(30)"
    )
    if kind == "vectors":
        delta_spark.run(f"delete from delta.`{place}` where id % 7 = 0")
    else:
        delta_spark.run(f"alter table delta.`{place}` rename column `a b` to `c d`")


@pytest.mark.parametrize("kind", sorted(PROPERTIES))
def test_tables_that_delta_spark_made(session, uri, catalog, tmp_path, kind):
    delta_spark.find_jars()
    place = str(tmp_path / "made")
    # without it Delta itself refuses tables that are mapped by id
    session.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    make(place, kind)
    catalog.import_table(place, "made", engine="local")
    ours = deltasql.spark.read(session, uri, "made")
    other = session.read.format("delta").load(place)
    way = deltasql.spark.explain(uri, "made").way
    assert way == ("native" if kind == "by name" else "delta")
    assert ours.schema.json() == other.schema.json()
    assert collected(ours) == collected(other)
    assert len(collected(ours)) == (25 if kind == "vectors" else 30)
    some = "id between 3 and 12 and p = date'2024-01-02'"
    assert collected(ours.where(some)) == collected(other.where(some))
    session.conf.unset("spark.sql.parquet.fieldId.read.enabled")
    if kind == "by id":  # which Delta's reader now refuses
        assert deltasql.spark.explain(uri, "made").way == "python"
        assert len(collected(deltasql.spark.read(session, uri, "made"))) == 30


READ = sorted(name for name, case in EXPECTED.items() if case["verdict"] == "import")


@needs_corpora
@pytest.mark.verify
@pytest.mark.parametrize("name", READ)
def test_tables_of_other_writers(session, tables, tmp_path, name):
    """What Spark gives, either way, is what our own scan gives, which is held to the corpus."""
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    wanted, refused = None, None
    with deltasql.connect(uri, settings=NO_MIRROR) as catalog:
        catalog.import_table(str(tables / name / "delta"), "t", engine="local")
        try:
            wanted = read_deltasql(catalog.table("t"))
        except deltasql.DeltaSqlError as error:
            refused = error
    if refused is not None:
        with pytest.raises(Exception) as told:
            deltasql.spark.read(session, uri, "t").toArrow()
        # what a task says is Spark's error, with our code in it
        assert isinstance(told.value, type(refused)) or refused.code in str(told.value)
        return
    assert repr(collected(deltasql.spark.read(session, uri, "t"))) == repr(wanted)


def test_a_partition_of_nan_is_greater_than_any_number(catalog, uri, session, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    table = a_table(catalog, tmp_path, "nan", schema=schema, partition_by=["x"])
    table.append(pa.table({"id": [1, 2, 3], "x": [1.5, float("nan"), 9.0]}))
    catalog.mirror.run_once()
    plain = delta_spark._frame(unquote(table.location.removeprefix("file://")))
    for where in ("x > 5", "x >= 9.0", "not (x <= 5)", "id < 9 and x > 5", "x < 5"):
        found = deltasql.spark.read(session, uri, "nan", where=where)
        expected = sorted(row.id for row in plain.where(where).collect())
        assert sorted(row.id for row in found.collect()) == expected, where
        assert found.count() == len(expected), where
