"""Drivers that die or compete: all tables of a transaction change, or none, and nothing is lost."""

import signal

import pyarrow as pa
import pytest

import delta_spark
import deltasql
import transaction_driver
from deltasql.testing import check_invariants
from deltasql.testing.crash_points import traced_points
from readers import read_deltasql
from staged_tables import rows_of

pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("needs_delta")]
NUMBERS = pa.schema([("n", pa.int64())])
OWN = {"after-spark-staging", "before-spark-commit", "after-spark-commit"}


@pytest.fixture
def tables(uri, tmp_path):
    with deltasql.connect(uri) as catalog:
        for name in "abc":
            catalog.create_table(name, location=str(tmp_path / name), schema=NUMBERS)
        catalog.table("a").append(pa.table({"n": [0]}, schema=NUMBERS))


@pytest.fixture
def lent(needs_delta):
    """This process's JVM for others; databases that they leave behind are dropped."""
    spark = delta_spark.session()
    yield transaction_driver.lent()
    for database in spark.catalog.listDatabases():
        if database.name.startswith("deltasql_tx_"):
            spark.sql(f"DROP DATABASE {database.name} CASCADE")


def done(catalog):
    """Return how many transactions were committed: every table must say the same."""
    first = read_deltasql(catalog.table("a"))[0]["n"]
    for name in "bc":
        found = [row["n"] for row in read_deltasql(catalog.table(name))]
        assert sorted(found) == list(range(1, first + 1)), name
    return first


@pytest.mark.usefixtures("tables")
def test_killed_at_every_point(uri, tmp_path, lent):
    trace = tmp_path / "trace"
    testing = {"DELTASQL_TESTING": "1", **lent}
    process = transaction_driver.start("three", uri, DELTASQL_CRASH_TRACE=str(trace), **testing)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    points = list(dict.fromkeys(traced_points(trace)))
    assert set(points) >= OWN
    committed = points.index("after-commit")
    for number, point in enumerate(points):
        with deltasql.connect(uri) as catalog:
            before = done(catalog)
        process = transaction_driver.start("three", uri, DELTASQL_CRASH_AT=point, **testing)
        _, err = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, (point, err)
        with deltasql.connect(uri) as catalog:
            catalog.mirror.run_once()
            assert done(catalog) == before + (number >= committed), point
            for name in "abc":
                check_invariants(catalog, name)
    with deltasql.connect(uri) as catalog:
        delta_spark.forget()
        assert [len(rows_of(catalog.table(name))) for name in "bc"] == [done(catalog)] * 2


@pytest.mark.usefixtures("tables")
def test_two_drivers_lose_no_update(uri):
    times = 3
    drivers = [transaction_driver.start("count", uri, str(times)) for _ in range(2)]
    for driver in drivers:
        _, err = driver.communicate(timeout=400)
        assert driver.returncode == 0, err
    with deltasql.connect(uri) as catalog:
        assert rows_of(catalog.table("a")) == [{"n": 2 * times}]
        assert catalog.table("a").version == 1 + 2 * times
        check_invariants(catalog, "a")
