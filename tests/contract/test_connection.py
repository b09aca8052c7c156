"""An open catalog below the API: what opening it, reading and writing build."""

import threading

import pytest

import deltasql
from builders import a_table, ids, rows
from deltasql.api import session as mirroring
from deltasql.testing import inspect


def threads():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("deltasql")}


def test_reading_builds_no_mirror_and_starts_no_thread(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1, 2))
    before = threads()
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        assert ids(table, where="id > 1") == [2]
        assert len(table.history()) == 2
        assert len(catalog.tables()) == 1
        assert inspect(catalog).session._mirroring is None
        assert threads() <= before
        table.append(rows(3))
        assert inspect(catalog).session._mirroring is inspect(table).mirroring


def test_many_threads_build_one_mirror(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path)
    with deltasql.connect(catalog_uri) as catalog:
        found, start = [], threading.Barrier(8)

        def build():
            start.wait()
            found.append(inspect(catalog).mirroring)

        running = [threading.Thread(target=build) for _ in range(8)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert len(found) == 8
        assert len({id(one) for one in found}) == 1


def test_the_parts_are_one_catalogs(catalog, table):
    opened = inspect(table)
    assert opened == inspect(catalog)
    assert opened.database is opened.connection.metastore.database
    assert opened.engine.connection is opened.checkpointer.connection is opened.connection
    assert opened.connection.store_of(table.refresh()) is table.store


def test_a_mirror_that_cannot_be_built_refuses_the_commit_before_it_is_made(
    catalog_uri, tmp_path, monkeypatch
):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        with monkeypatch.context() as patch:
            patch.setattr(mirroring, "Checkpointer", fail)
            for write in (lambda: table.append(rows(2)), lambda: a_table(catalog, tmp_path, "new")):
                with pytest.raises(RuntimeError, match="not built"):
                    write()
            assert table.version == 1
            assert [one.name for one in catalog.tables()] == ["orders"]
        assert table.append(rows(2)) == 2
        a_table(catalog, tmp_path, "new")


def fail(*_):
    raise RuntimeError("not built")
