"""A session's partitionOverwriteMode counts in overwrites as it counts in Delta's."""

import pytest

import deltasql
import deltasql.spark
from builders import a_table, rows
from spark_frames import a_frame, expect_equal_everywhere

pytestmark = [pytest.mark.req("R26"), pytest.mark.usefixtures("needs_delta")]
MODE = "spark.sql.sources.partitionOverwriteMode"
CASES = {
    "the session alone": ({}, ["day"]),
    "an option before it": ({"partitionOverwriteMode": "static"}, ["day"]),
    "replaceWhere before it": ({"replaceWhere": "day = 'b'"}, ["day"]),
    "overwriteSchema before it": ({"overwriteSchema": "true"}, ["day"]),
    "no partitions": ({}, []),
    "no partitions, overwriteSchema": ({"overwriteSchema": "true"}, []),
}


@pytest.fixture
def mode(session):
    session.conf.set(MODE, "DYNAMIC")
    yield
    session.conf.unset(MODE)


def by_write(frame, uri, options):
    deltasql.spark.write(frame, uri, "orders", mode="overwrite", options=options)


def by_sink(frame, uri, options):
    given = {"uri": uri, "table": "orders", **options}
    frame.write.format("deltasql").mode("overwrite").options(**given).save()


@pytest.mark.parametrize("write", [by_write, by_sink])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("mode")
def test_an_overwrite_replaces_what_deltas_replaces(session, uri, tmp_path, write, case):
    options, partitions = CASES[case]
    place = str(tmp_path / "delta")
    begun = a_frame(session, 1, day="a").union(a_frame(session, 2, day="b"))
    begun.write.format("delta").partitionBy(*partitions).save(place)
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path, partition_by=partitions)
        table.append(rows(1, day="a"))
        table.append(rows(2, day="b"))

        frame = a_frame(session, 9, day="b")
        frame.write.format("delta").mode("overwrite").options(**options).save(place)
        write(frame, uri, options)

        delta = session.read.format("delta").load(place).collect()
        found = expect_equal_everywhere(table)
    assert sorted(row["id"] for row in found) == sorted(row.id for row in delta)


@pytest.mark.parametrize("write", [by_write, by_sink])
def test_no_rows_replace_no_partition(session, uri, tmp_path, mode, write):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, day="a"))
        write(a_frame(session, 1).limit(0), uri, {})
        write(session.createDataFrame([], a_frame(session, 1).schema), uri, {})
        assert [row["id"] for row in expect_equal_everywhere(table)] == [1]


def test_an_append_is_an_append(session, uri, tmp_path, mode):
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1, day="a"))
        deltasql.spark.write(a_frame(session, 2, day="a"), uri, "orders")
        assert [row["id"] for row in expect_equal_everywhere(table)] == [1, 2]
