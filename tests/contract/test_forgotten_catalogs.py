"""A catalog that nobody refers to any more is closed, with its threads and connections."""

import gc
import threading
import time
import weakref

import pytest

import deltasql
from builders import a_table, rows
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect

MODES = ["inline", "worker", "off"]


def use(uri, settings, name):
    """Open a catalog, commit until a checkpoint is due, and forget it; return its database."""
    catalog = deltasql.connect(uri, settings=settings)
    table = catalog.table(name)
    for number in range(11):
        table.append(rows(number))
    return weakref.ref(inspect(catalog).database)


def own_threads():
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("deltasql-") and name != "deltasql-in-flight"]


@pytest.mark.parametrize("mode", MODES)
def test_a_catalog_that_is_forgotten_is_closed(catalog_uri, tmp_path, mode):
    settings = Settings(mirror=MirrorSettings(mode=mode))
    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        a_table(catalog, tmp_path)
    forgotten = [use(catalog_uri, settings, "orders") for _ in range(3)]
    deadline = time.monotonic() + 60
    while any(database() is not None for database in forgotten) or own_threads():
        assert time.monotonic() < deadline, own_threads()
        gc.collect()
        time.sleep(0.02)
    in_flight = [one for one in threading.enumerate() if one.name == "deltasql-in-flight"]
    assert len(in_flight) <= 1
