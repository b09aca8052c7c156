"""spark.write to tables with column mapping, and what is refused by name."""

from urllib.parse import unquote

import pyarrow as pa
import pytest

import delta_spark
import deltasql
from builders import a_table, some
from deltasql.errors import SchemaError, TableStateError
from deltasql.spark import write
from readers import read_deltasql, sort_rows

pytestmark = pytest.mark.usefixtures("spark")
COLUMNS = """`an id` long, s struct<a: long, `b c`: string>, l array<struct<x: int>>,
m map<string, struct<y: int>>, part string"""
ROWS = [
    "id as `An Id`",
    "if(id = 2, null, named_struct('a', nullif(id, 9), 'b c', nullif(string(id), ''))) as s",
    "array(named_struct('x', nullif(cast(id as int), 9)), null) as l",
    "map('k', named_struct('y', cast(id as int))) as m",
    "if(id = 1, null, concat('p/', id % 3)) as part",
]

DOTTED = pa.schema([("id", pa.int64()), ("a.b", pa.int64()), ("p.q", pa.string())])


@pytest.fixture
def session(spark):
    return delta_spark.session()


def taken_over(uri, place, name="t"):
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(place), name, engine="local")
        catalog.cutover(name)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(session, uri, tmp_path, mode):
    place = tmp_path / "mapped"
    delta_spark.run(
        f"create table delta.`{place}` ({COLUMNS}) using delta partitioned by (part) "
        f"tblproperties ('delta.columnMapping.mode' = '{mode}')"
    )
    delta_spark.run(f"alter table delta.`{place}` rename column s to t")
    delta_spark.run(f"alter table delta.`{place}` rename column t.a to z")
    taken_over(uri, place)
    rows = [text.replace("as s", "as t").replace("'a',", "'z',") for text in ROWS]
    frame = session.range(6).selectExpr(*rows)
    write(frame, uri, "t", max_records_per_file=100)
    write(frame, uri, "t")
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        found = read_deltasql(table)
        half = sort_rows(frame.toArrow().rename_columns(table.schema.names).to_pylist())
        assert found == sort_rows([*half, *half])
        spark = delta_spark.session()
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        try:
            delta_spark.forget()
            place = unquote(table.location.removeprefix("file://"))
            assert delta_spark.read_delta_spark(place) == found
            where = "t.z = 4 and part = 'p/1'"
            assert len(delta_spark.read_delta_spark(place, where=where)) == 2
            assert delta_spark.count_files(place, "`an id` = 5") <= 2
        finally:
            spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
    with pytest.raises(SchemaError, match="column mapping"):
        write(frame.selectExpr("*", "1 as more"), uri, "t", merge_schema=True)


def test_a_table_that_is_only_imported_is_refused(session, uri, tmp_path):
    place = tmp_path / "tracked"
    delta_spark.run(f"create table delta.`{place}` (id long) using delta")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(place), "t", engine="local")
    with pytest.raises(TableStateError):
        write(session.range(3), uri, "t")
    assert list(place.glob("*.parquet")) == []


def test_deletion_vectors_do_not_disturb_an_append(session, uri, tmp_path):
    place = tmp_path / "vectors"
    delta_spark.run(
        f"create table delta.`{place}` (id long) using delta "
        "tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    taken_over(uri, place)
    write(session.range(6000).where("id >= 0"), uri, "t")
    with deltasql.connect(uri) as catalog:
        table = catalog.table("t")
        stats = table.snapshot().files(["stats"]).column("stats").to_pylist()
        assert all('"tightBounds":true' in text for text in some(stats))
        delta_spark.forget()
        assert len(delta_spark.read_delta_spark(str(place))) == 6000


def test_names_with_dots(session, uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path, schema=DOTTED, partition_by=["p.q"])
        frame = session.range(4).selectExpr("id", "id as `a.b`", "concat('x', id) as `p.q`")
        write(frame, uri, "orders", max_records_per_file=10)
        write(frame, uri, "orders")
        half = sort_rows(frame.toArrow().to_pylist())
        assert read_deltasql(table) == sort_rows([*half, *half])
        delta_spark.forget()
        place = unquote(table.location.removeprefix("file://"))
        assert delta_spark.read_delta_spark(place) == read_deltasql(table)
