"""What all tests of the calls on Spark share."""

import pytest

import delta_spark
import deltasql


@pytest.fixture(scope="module")
def needs_delta(spark):
    """Delta's jars, without which there are no transactions."""
    delta_spark.find_jars()


@pytest.fixture
def session(spark):
    return spark.spark


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as opened:
        yield opened
