"""Handles of tables that are gone are refused; they never read as empty."""

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, rows
from deltasql.errors import TableNotFoundError, TableStateError

READS = {
    "scan": lambda table, _: table.scan().to_arrow(),
    "snapshot": lambda table, _: table.snapshot(),
    "time travel": lambda table, _: table.scan(version=1).to_arrow(),
    "schema": lambda table, _: table.schema,
    "detail": lambda table, _: table.detail(),
    "older scan": lambda _, scan: scan.to_arrow(),
    "older files": lambda _, scan: scan.snapshot.files(),
    "older files, named": lambda _, scan: scan.snapshot.files_named(["f"], ["path"]),
    "older totals": lambda _, scan: scan.snapshot.summary(),
    "append": lambda table, _: table.append(rows(9)),
    "overwrite": lambda table, _: table.overwrite(rows(9)),
    "commit": lambda table, _: table.commit([an_add("f")]),
    "delete": lambda table, _: table.delete("day = 'a'"),
    "compact": lambda table, _: table.compact(),
    "alter": lambda table, _: table.alter(properties={"k": "v"}),
    "restore": lambda table, _: table.restore(version=1),
    "vacuum": lambda table, _: table.vacuum(),
    "follow": lambda table, _: table.follow(),
    "detach": lambda table, _: table.detach(),
    "wait": lambda table, _: table.wait_mirrored(timeout=0.1),
}


def purged(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1, 2))
    scan = table.scan()
    catalog.drop("orders", purge=True)
    return table, scan


def foreign_log(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/other.db") as other:
        table = a_table(other, tmp_path, "source")
        table.append(rows(1, 2))
        table.detach()
        return table.location


def imported(catalog, tmp_path):
    place = foreign_log(tmp_path)
    catalog.import_table(place, "orders", engine="local")
    table = catalog.table("orders")
    return place, table, table.scan()


def imported_again(catalog, tmp_path):
    place, table, scan = imported(catalog, tmp_path)
    catalog.import_table(place, "orders", engine="local", force=True)
    return table, scan


def dropped_import(catalog, tmp_path):
    _, table, scan = imported(catalog, tmp_path)
    catalog.drop("orders")
    return table, scan


GONE = {"purged": purged, "imported again": imported_again, "dropped import": dropped_import}


@pytest.mark.parametrize("how", list(GONE))
def test_every_use_of_a_table_that_is_gone_is_refused(catalog_uri, tmp_path, how):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table, scan = GONE[how](catalog, tmp_path)
        for name, use in READS.items():
            with pytest.raises((TableStateError, TableNotFoundError), match=r"orders"):
                use(table, scan)
                pytest.fail(f"{name} was not refused")


@pytest.mark.parametrize("how", list(GONE))
def test_a_copy_is_not_emptied_by_rows_of_a_table_that_is_gone(catalog_uri, tmp_path, how):
    with deltasql.connect(catalog_uri) as catalog:
        table, scan = GONE[how](catalog, tmp_path)
        copy = a_table(catalog, tmp_path, "copy")
        copy.append(rows(5))
        for source in (table.scan, lambda: scan):
            with pytest.raises((TableStateError, TableNotFoundError)):
                copy.overwrite(source())
        assert copy.version == 1
