"""A catalog in each database, and a small table `orders` in it; files that need others say so."""

import pytest

import deltasql
from builders import a_table


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as opened:
        opened.create_if_missing()
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    return a_table(catalog, tmp_path)
