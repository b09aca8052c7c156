"""TPC-DS through deltasql returns what Spark returns over plain Parquet files."""

from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException

import deltasql
import deltasql.spark
import tpcds
from readers import Rows

pytestmark = [pytest.mark.req("R26"), pytest.mark.verify]
PUSHES = "spark.sql.python.filterPushdown.enabled"
FILES = 8
BY_YEAR = {"date_dim": ["d_year"]}


@dataclass(frozen=True)
class Lake:
    """One session for each way to read: in all of them the tables are views of the same names."""

    queries: dict[int, str]
    plain: Any
    ways: dict[str, Any]

    def compare(self, number: int) -> tuple[Rows, list[str]]:
        """Return the rows over plain Parquet, and the ways in which a query returns others."""
        query = self.queries[number]
        expected = tpcds.answer(self.plain, query)
        wrong = [way for way, own in self.ways.items() if tpcds.answer(own, query) != expected]
        return expected, wrong


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("tpcds")
    names, queries = tpcds.generate(place)
    uri = f"deltasql://sqlite/{place}/catalog.db"
    with deltasql.connect(uri) as catalog:
        for name in names:
            take_over(catalog, name, pq.read_table(place / f"{name}.parquet"), place)
    plain, read, source, attached = (spark.spark.newSession() for _ in range(4))
    for own in (plain, read, source, attached):
        own.conf.set("spark.sql.ansi.enabled", "false")  # some queries divide by zero
    source.conf.set(PUSHES, "true")
    for name in names:
        plain.read.parquet(f"{place / name}.parquet").createTempView(name)
        deltasql.spark.read(read, uri, name).createTempView(name)
        loaded = source.read.format("deltasql").options(uri=uri, table=name).load()
        loaded.createTempView(name)
    assert set(deltasql.spark.attach(attached, uri)) == set(names)
    return Lake(queries, plain, {"read": read, "source": source, "attach": attached})


def take_over(catalog, name, rows, place):
    """Make a table whose files can be skipped: by year, or by a range of the keys."""
    given = {"schema": rows.schema, "partition_by": BY_YEAR.get(name, ())}
    table = catalog.create_table(name, location=str(place / "lake" / name), **given)
    is_cut = rows.num_rows > 1000 and name not in BY_YEAR
    count = -(-rows.num_rows // FILES) if is_cut else rows.num_rows
    for start in range(0, rows.num_rows, count):
        table.append(rows.slice(start, count))


@pytest.mark.timeout(600)
def test_queries_that_filter_one_table_in_several_ways(lake):
    """Their common tables are filtered more than once."""
    for number in tpcds.WENT_WRONG:
        expected, different = lake.compare(number)
        assert expected, f"query {number} returns nothing"
        assert different == [], f"query {number}"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_query_that_spark_parses(lake):
    tried, wrong = [], {}
    for number, query in lake.queries.items():
        try:
            lake.plain.sql(query)
        except ParseException:
            continue
        tried.append(number)
        _, different = lake.compare(number)
        if different:
            wrong[number] = different
    assert wrong == {}
    assert len(tried) >= 90
