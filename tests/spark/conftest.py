"""What all tests of the calls on Spark share."""

from dataclasses import dataclass
from typing import Any

import pytest

import deltasql
from builders import a_table


@pytest.fixture(scope="module")
def needs_delta(spark, needs_jars):
    """Delta's jars in this process's Spark, without which there are no transactions."""


@pytest.fixture
def uri(tmp_path) -> str:
    """A catalog in SQLite, where the database makes no difference."""
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


@pytest.fixture
def session(spark):
    return spark.spark


@dataclass(frozen=True)
class Small:
    """A table `orders` on SQLite, where the database makes no difference."""

    catalog: Any
    table: Any
    uri: str


@pytest.fixture
def small(tmp_path):
    uri = f"deltasql://sqlite/{tmp_path}/small.db"
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        yield Small(catalog, a_table(catalog, tmp_path), uri)
