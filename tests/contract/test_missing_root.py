"""A local table whose disk is away takes no write, and nothing is made in its place."""

import shutil
from pathlib import Path

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows
from deltasql.errors import StorageUnavailableError
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants

WRITES = {
    "append": lambda catalog, table: table.append(rows(2)),
    "overwrite": lambda catalog, table: table.overwrite(rows(2)),
    "delete": lambda catalog, table: table.delete("day = 'a'"),
    "commit": lambda catalog, table: table.commit([an_add("f")]),
    "alter": lambda catalog, table: table.alter(properties={"k": "v"}),
    "two-step write": lambda catalog, table: catalog.writes.existing(table.table_id),
}


def folder(table):
    return Path(table.location.removeprefix("file://"))


def unmount(table, aside):
    shutil.move(folder(table), aside)


@pytest.mark.parametrize("write", list(WRITES))
@pytest.mark.parametrize("settings", [Settings(), NO_MIRROR], ids=["inline", "no mirror"])
def test_a_write_to_a_table_whose_folder_is_gone_is_refused(catalog_uri, tmp_path, write, settings):
    with deltasql.connect(catalog_uri, settings=settings) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        unmount(table, tmp_path / "aside")
        with pytest.raises(StorageUnavailableError, match="orders"):
            WRITES[write](catalog, table)
        assert not folder(table).exists()
        shutil.move(tmp_path / "aside", folder(table))
        assert (table.version, ids(table)) == (1, [1])
        table.append(rows(2))
        assert ids(table) == [1, 2]
        if settings is not NO_MIRROR:
            check_invariants(catalog, "orders")


def test_an_empty_mount_point_is_not_the_table(catalog, table, tmp_path):
    table.append(rows(1))
    unmount(table, tmp_path / "aside")
    folder(table).mkdir()
    with pytest.raises(StorageUnavailableError, match="owner marker"):
        table.append(rows(2))
    assert list(folder(table).iterdir()) == []


@pytest.mark.req("R16")
def test_the_mirror_puts_no_version_into_a_new_folder(catalog_uri, tmp_path):
    later = Settings(mirror=MirrorSettings(mode="worker"))
    with deltasql.connect(catalog_uri, settings=later) as catalog:
        table = a_table(catalog, tmp_path)
        table.wait_mirrored()
        table.append(rows(1))
        unmount(table, tmp_path / "aside")
        result = inspect(catalog).engine.catch_up(table.table_id, seconds=0.2)
        assert result.error is not None
        assert table.refresh().mirrored_through == 0
        assert not list(tmp_path.glob("lake-*"))
        shutil.move(tmp_path / "aside", folder(table))
        check_invariants(catalog, "orders")
