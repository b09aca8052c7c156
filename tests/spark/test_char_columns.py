"""char(n) and varchar(n): lengths are kept, and Spark's blanks hide no rows."""

import shutil

import pytest

import delta_spark
import deltasql
import deltasql.spark
from deltasql.errors import ConstraintViolationError
from readers import sort_rows

pytestmark = [pytest.mark.usefixtures("needs_delta"), pytest.mark.req("R26")]
PUSHES = "spark.sql.python.filterPushdown.enabled"
COLUMNS = (
    "id long, c char(5), v varchar(5), p char(3), n struct<x: varchar(2)>, a array<char(2)>, "
    "m map<varchar(2), char(2)>"
)
ROW = (
    "select {id}L id, {c} c, {v} v, {p} p, named_struct('x', {n}) n, array({a}) a, map({k}, {m}) m"
)
SHORT = {
    "id": 2,
    "c": "'b'",
    "v": "'b'",
    "p": "'x'",
    "n": "'q'",
    "a": "'r'",
    "k": "'k'",
    "m": "'l'",
}
FILTERS = [
    "c = 'a'",
    "c = 'a    '",
    "c in ('a   ', 'q')",
    "c <> 'a    '",
    "p = 'x'",
    "p = 'x  '",
    "p <> 'x  '",
    "id = 1 and c > 'a'",
    "id = 1 and c >= 'a    '",
    "v = 'b'",
]


@pytest.fixture
def places(uri, tmp_path):
    """The same table of Delta's own, and taken over."""
    plain = tmp_path / "plain"
    delta_spark.run(f"CREATE TABLE delta.`{plain}` ({COLUMNS}) USING delta PARTITIONED BY (p)")
    for row in [SHORT | {"id": 1, "c": "'a'"}, SHORT | {"c": "'zz'", "p": "'y'"}]:
        delta_spark.run(f"INSERT INTO delta.`{plain}` {ROW.format(**row)}")
    shutil.copytree(plain, tmp_path / "ours")
    with deltasql.connect(uri) as catalog:
        catalog.import_table(str(tmp_path / "ours"), "t", engine="local")
        catalog.cutover("t")
        yield str(plain), catalog.table("t")


def collected(frame):
    return sort_rows(frame.toArrow().to_pylist())


def test_reads_find_what_delta_finds(session, uri, places):
    plain = delta_spark._frame(places[0])
    session.conf.set(PUSHES, "true")
    try:
        source = session.read.format("deltasql").options(uri=uri, table="t").load()
        for where in FILTERS:
            expected = collected(plain.where(where))
            ours = deltasql.spark.read(session, uri, "t", where=where)
            assert collected(ours) == expected, where
            assert ours.count() == len(expected), where
            assert collected(source.where(where)) == expected, where
    finally:
        session.conf.unset(PUSHES)


def test_files_are_skipped_by_the_other_columns(uri, places):
    plan = deltasql.spark.explain(uri, "t", where="id = 1 and c = 'a    '")
    assert (plan.files.num_rows, plan.rows) == (1, None)
    assert deltasql.spark.explain(uri, "t", where="c = 'a    '").files.num_rows == 2


def test_a_source_does_not_leave_rows_out_by_them(session, uri, places):
    source = session.read.format("deltasql").options(uri=uri, table="t", where="c = 'a'")
    with pytest.raises(Exception, match=r"DS207.*texts of a char"):
        source.load().collect()


@pytest.mark.parametrize("rows", [{}, {"max_records_per_file": 5}])
@pytest.mark.parametrize("name", ["c", "v", "p", "n", "a", "k", "m"])
def test_a_text_that_is_too_long(session, uri, places, name, rows):
    """By our own writer on the driver, and by Spark's."""
    _, table = places
    before = table.version
    long = session.sql(ROW.format(**SHORT | {name: "'é234567'"}))
    with pytest.raises(ConstraintViolationError, match=r"too long for its (var)?char"):
        deltasql.spark.write(long, uri, "t", **rows)
    assert table.snapshot().version == before


def test_texts_that_fit(session, uri, places):
    plain, table = places
    fitting = session.sql(ROW.format(**SHORT | {"c": "'éöüß5'", "v": "null", "p": "'x  '"}))
    fitting.write.format("delta").mode("append").save(plain)
    deltasql.spark.write(fitting, uri, "t")
    deltasql.spark.write(fitting, uri, "t", max_records_per_file=5)
    fitting.write.format("delta").mode("append").save(plain)
    assert collected(deltasql.spark.read(session, uri, "t")) == collected(delta_spark._frame(plain))
    before = table.snapshot().version
    too_long = session.sql(ROW.format(**SHORT | {"v": "'abcdef'"}))
    with pytest.raises(Exception, match=r"DS\d+.*too long for its varchar"):
        too_long.write.format("deltasql").mode("append").options(uri=uri, table="t").save()
    assert table.snapshot().version == before
