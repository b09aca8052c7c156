"""DataFrames for the tests of writes, and what all readers say about the tables."""

import json
from urllib.parse import unquote

import delta_spark
from builders import paths
from deltasql.spark.write.dataframe_writer import SMALL_ROWS
from readers import read_deltalake, read_deltasql, sort_rows

COLUMNS = "id long, name string, day string"
# Too many for the driver: Spark's own writer takes them.
MANY = SMALL_ROWS + 1


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


def adds(place, version):
    """Return the adds of one commit of the log."""
    text = (place / "_delta_log" / f"{version:020}.json").read_text()
    lines = (json.loads(line) for line in text.splitlines())
    return [line["add"] for line in lines if "add" in line]
