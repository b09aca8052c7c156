"""A dropped table comes back as it was, or is refused by name; nothing is decided twice."""

import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

import deltasql
import processes
from builders import NO_MIRROR, a_table, an_add, ids, paths, rows
from deltasql.errors import (
    MirrorConflictError,
    OwnershipError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.log.owner_marker import OWNER_KEY, Owner, encode_owner, read_owner
from deltasql.metastore.table_row import TableState
from deltasql.mirror.queue import mirror_mode
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from hooks import once
from readers import READERS, read_deltasql


def folder(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def versions(table) -> list[tuple[int, str]]:
    return [(entry.version, entry.operation) for entry in table.history()]


def test_a_dropped_table_comes_back_with_its_history_and_takes_commits(catalog, table):
    table.append(rows(1))
    table.append(rows(2))
    table.delete("day = 'a'")
    table.append(rows(3))
    before, table_id = versions(table), table.table_id
    catalog.drop("orders")
    assert catalog.tables() == []
    [dropped] = catalog.dropped_tables()
    assert (dropped.name, dropped.table_id, dropped.version) == ("orders", table_id, 4)
    assert dropped.state is TableState.ACTIVE
    assert dropped.dropped_at is not None
    back = catalog.undrop_table("orders")
    assert (back.table_id, back.version, back.state) == (table_id, 4, TableState.ACTIVE)
    assert versions(back) == before
    assert catalog.dropped_tables() == []
    assert "deltasql.droppedAt" not in inspect(catalog).metastore.table("orders").properties
    assert ids(back) == [3]
    assert ids(back, version=2) == [1, 2]
    back.append(rows(4))
    back.wait_mirrored(timeout=10)
    check_invariants(catalog, "orders")
    wanted = read_deltasql(back)
    assert {name: read(str(folder(back))) for name, read in READERS.items()} == dict.fromkeys(
        READERS, wanted
    )


def test_it_comes_back_to_the_state_that_it_had(catalog, table):
    table.append(rows(1))
    catalog.mirror.pause("orders")
    catalog.drop("orders")
    catalog.undrop_table("orders")
    assert (
        mirror_mode(inspect(catalog).connection, inspect(catalog).metastore.table("orders"))
        == "off"
    )
    catalog.mirror.resume("orders")
    table.detach()
    catalog.drop("orders")
    # its place is others': they go on, and the catalog may import it again
    write_deltalake(folder(table), rows(2), mode="append")
    assert catalog.undrop_table("orders").state is TableState.DETACHED
    assert ids(catalog.table("orders")) == [1]


def test_a_table_comes_back_once(catalog, table, catalog_uri):
    catalog.drop("orders")

    def undrop():
        with deltasql.connect(catalog_uri) as other:
            other.undrop_table("orders")

    hook = once("before-undrop", undrop)
    with hooked(hook), pytest.raises(TableStateError, match="is not dropped"):
        catalog.undrop_table("orders")
    assert hook.passed
    with pytest.raises(TableNotFoundError, match="No table 'orders' was dropped"):
        catalog.undrop_table("orders")
    catalog.table("orders").append(rows(1))
    check_invariants(catalog, "orders")


def test_the_same_table_can_be_dropped_and_brought_back_again_and_again(catalog, table):
    for number in range(3):
        table.append(rows(number))
        catalog.drop("orders")
        catalog.undrop_table("orders")
    assert ids(table) == [0, 1, 2]
    check_invariants(catalog, "orders")


def test_an_old_handle_is_refused_until_the_table_is_back(catalog, table):
    old = catalog.table("orders")
    catalog.drop("orders")
    with pytest.raises(TableStateError):
        old.append(rows(1))
    with pytest.raises(TableStateError, match="undrop orders"):
        ids(old)
    catalog.undrop_table("orders")
    assert old.append(rows(2)) == 1
    assert ids(table) == [2]
    check_invariants(catalog, "orders")


def test_a_transaction_that_began_before_the_drop_commits_after_the_table_is_back(catalog, table):
    with catalog.transaction() as tx:
        tx.table("orders").append(rows(1))
        catalog.drop("orders")
        catalog.undrop_table("orders")
    assert ids(table) == [1]
    check_invariants(catalog, "orders")


def test_the_name_may_be_taken_meanwhile(catalog, table, tmp_path):
    catalog.drop("orders")
    other = a_table(catalog, tmp_path)
    with pytest.raises(TableExistsError, match="'orders' already") as refused:
        catalog.undrop_table("orders")
    assert "Rename" in refused.value.advice
    catalog.rename("orders", "sales")
    assert catalog.undrop_table("orders").table_id == table.table_id
    assert [info.name for info in catalog.tables()] == ["orders", "sales"]
    assert other.append(rows(1)) == 1


def test_a_name_that_is_taken_in_the_last_moment_is_refused(catalog, table, catalog_uri, tmp_path):
    catalog.drop("orders")

    def create():
        with deltasql.connect(catalog_uri) as other:
            a_table(other, tmp_path).append(rows(7))

    hook = once("before-undrop", create)
    with hooked(hook), pytest.raises(TableExistsError, match="'orders' already"):
        catalog.undrop_table("orders")
    assert hook.passed
    assert ids(catalog.table("orders")) == [7]
    assert [one.table_id for one in catalog.dropped_tables()] == [table.table_id]
    check_invariants(catalog, "orders")


def test_a_creation_that_comes_later_than_the_table_is_refused(
    catalog, table, catalog_uri, tmp_path
):
    table.append(rows(1))
    catalog.drop("orders")

    def undrop():
        with deltasql.connect(catalog_uri) as other:
            other.undrop_table("orders")

    hook = once("before-place-taken", undrop)
    with hooked(hook), pytest.raises(TableExistsError):
        a_table(catalog, tmp_path)
    assert hook.passed
    assert ids(catalog.table("orders")) == [1]
    check_invariants(catalog, "orders")


def test_the_place_may_be_taken_meanwhile(catalog, table):
    table.append(rows(1))
    catalog.drop("orders")
    catalog.import_table(table.location, "sales", engine="local")
    with pytest.raises(TableExistsError, match="belongs to table sales"):
        catalog.undrop_table("orders")
    catalog.drop("sales")
    assert ids(catalog.undrop_table("orders")) == [1]
    catalog.table("orders").append(rows(2))
    check_invariants(catalog, "orders")


def test_a_place_that_is_taken_in_the_last_moment_is_refused(catalog, table, catalog_uri):
    catalog.drop("orders")

    def bring_in():
        with deltasql.connect(catalog_uri) as other:
            other.import_table(table.location, "sales", engine="local")

    hook = once("before-undrop", bring_in)
    with hooked(hook), pytest.raises(TableExistsError, match="belongs to another table"):
        catalog.undrop_table("orders")
    assert hook.passed
    assert [info.name for info in catalog.tables()] == ["sales"]


def test_of_several_tables_the_last_one_comes_back_or_the_one_that_is_named(catalog, tmp_path):
    dropped = []
    for number in range(3):
        table = a_table(catalog, tmp_path)
        table.append(rows(number))
        catalog.drop("orders")
        dropped.append(table.table_id)
    assert [one.table_id for one in catalog.dropped_tables()] == dropped[::-1]
    assert ids(catalog.undrop_table("orders")) == [2]
    catalog.rename("orders", "last")
    assert ids(catalog.undrop_table("orders", table_id=dropped[0])) == [0]
    with pytest.raises(TableNotFoundError, match="with the id"):
        catalog.undrop_table("orders", table_id="no such id")


def test_a_purged_table_does_not_come_back(catalog, table, tmp_path):
    catalog.drop("orders", purge=True)
    with pytest.raises(TableStateError, match="was purged"):
        catalog.undrop_table("orders")
    [dropped] = catalog.dropped_tables()
    assert (dropped.is_purged, dropped.state) == (True, None)
    # an older one that can come back does
    a_table(catalog, tmp_path).append(rows(1))
    catalog.drop("orders")
    assert ids(catalog.undrop_table("orders")) == [1]


def test_a_table_that_a_new_import_replaced_does_not_come_back(catalog, tmp_path):
    write_deltalake(tmp_path / "t", rows(1))
    catalog.import_table(str(tmp_path / "t"), "orders", engine="local")
    first = catalog.table("orders").table_id
    catalog.import_table(str(tmp_path / "t"), "orders", engine="local", force=True)
    catalog.drop("orders")
    assert first in [one.table_id for one in catalog.dropped_tables()]
    with pytest.raises(TableStateError, match="replaced by a new import") as refused:
        catalog.undrop_table("orders", table_id=first)
    assert "deltasql import" in refused.value.advice


def test_an_import_that_was_taken_back_is_imported_again(catalog, tmp_path):
    write_deltalake(tmp_path / "t", rows(1))
    catalog.import_table(str(tmp_path / "t"), "orders", engine="local")
    catalog.drop("orders")
    with pytest.raises(TableNotFoundError):
        catalog.undrop_table("orders")
    catalog.import_table(str(tmp_path / "t"), "orders", engine="local")
    assert catalog.table("orders").state is TableState.READ_ONLY


def test_commits_that_were_dropped_by_force_come_back_and_reach_the_log(catalog, table):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    catalog.mirror.pause("orders")
    table.append(rows(2))
    catalog.drop("orders", force=True)
    back = catalog.undrop_table("orders")
    assert ids(back) == [1, 2]
    assert not (folder(back) / commit_key(2)).exists()
    catalog.mirror.resume("orders")
    back.append(rows(3))
    check_invariants(catalog, "orders")


def test_what_is_behind_is_mirrored_when_the_table_comes_back(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        inspect(catalog).engine.catch_up(table.table_id, seconds=10)
        table.append(rows(1))
        catalog.drop("orders", force=True)
        catalog.undrop_table("orders")
        assert (folder(table) / commit_key(1)).exists()
        check_invariants(catalog, "orders")


# The log may have been changed since.


def _foreign_commit(table, catalog):
    (folder(table) / commit_key(2)).write_text('{"commitInfo":{}}\n')


def _other_commit(table, catalog):
    path = folder(table) / commit_key(1)
    path.write_bytes(path.read_bytes().replace(b'"WRITE"', b'"MERGE"'))


def _lost_commit(table, catalog):
    (folder(table) / commit_key(1)).unlink()


def _lost_folder(table, catalog):
    shutil.rmtree(folder(table))


def _no_marker(table, catalog):
    (folder(table) / OWNER_KEY).unlink()


def _other_owner(table, catalog):
    owner = Owner("another", 1, table.table_id)
    (folder(table) / OWNER_KEY).write_bytes(encode_owner(owner))


def _other_table(table, catalog):
    owner = Owner(catalog.catalog_id, 1, "another")
    (folder(table) / OWNER_KEY).write_bytes(encode_owner(owner))


def _later_epoch(table, catalog):
    owner = Owner(catalog.catalog_id, 9, table.table_id)
    (folder(table) / OWNER_KEY).write_bytes(encode_owner(owner))


CHANGES = {
    _foreign_commit: (OwnershipError, "up to 1"),
    _other_commit: (MirrorConflictError, "Version 1 of orders is another commit"),
    _lost_commit: (OwnershipError, "has lost"),
    _lost_folder: (OwnershipError, "no owner marker"),
    _no_marker: (OwnershipError, "no owner marker"),
    _other_owner: (OwnershipError, "belongs to catalog another"),
    _other_table: (OwnershipError, "table another"),
    _later_epoch: (OwnershipError, "epoch 9"),
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_table_whose_log_was_changed_is_refused_and_stays_dropped(catalog, table, change):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    catalog.drop("orders")
    change(table, catalog)
    before = {path: path.read_bytes() for path in folder(table).rglob("*.json")}
    kind, message = CHANGES[change]
    for dry_run in (True, False):
        with pytest.raises(kind, match=message) as refused:
            catalog.undrop_table("orders", dry_run=dry_run)
        assert refused.value.advice
    assert catalog.tables() == []
    assert len(catalog.dropped_tables()) == 1
    assert {path: path.read_bytes() for path in folder(table).rglob("*.json")} == before


def test_a_dry_run_changes_nothing(catalog, table):
    catalog.drop("orders")
    catalog.undrop_table("orders", dry_run=True)
    assert catalog.tables() == []
    assert len(catalog.dropped_tables()) == 1


def test_a_catalog_that_was_recovered_since_takes_the_log_over(catalog, table, catalog_uri):
    table.append(rows(1))
    catalog.drop("orders")
    catalog.new_epoch()
    with pytest.raises(OwnershipError, match="epoch 2"):
        catalog.undrop_table("orders")
    with deltasql.connect(catalog_uri) as again:
        back = again.undrop_table("orders")
        assert read_owner(inspect(again).connection.store_at(back.location)).epoch == 2
        back.append(rows(2))
        back.wait_mirrored(timeout=10)
        check_invariants(again, "orders")


# The log of a dropped table can be imported.


def test_the_log_of_a_dropped_table_is_imported_and_taken_over(catalog, table):
    table.append(rows(1))
    table.append(rows(2))
    catalog.drop("orders")
    catalog.import_table(table.location, "orders", engine="local")
    assert catalog.table("orders").state is TableState.READ_ONLY
    catalog.cutover("orders")
    fresh = catalog.table("orders")
    assert fresh.table_id != table.table_id
    fresh.append(rows(3))
    fresh.wait_mirrored(timeout=10)
    assert ids(fresh) == [1, 2, 3]
    check_invariants(catalog, "orders")
    # the old one stays dropped: its log has a new owner
    catalog.rename("orders", "sales")
    catalog.drop("sales")
    with pytest.raises(OwnershipError, match=fresh.table_id):
        catalog.undrop_table("orders")
    assert ids(catalog.undrop_table("sales")) == [1, 2, 3]


def test_the_log_of_a_living_table_is_not_imported(catalog, table, tmp_path):
    table.append(rows(1))
    with pytest.raises(TableExistsError):
        catalog.import_table(table.location, "other", engine="local")


def test_the_log_of_another_catalogs_dropped_table_is_not_imported(catalog, table, second_uri):
    catalog.drop("orders")
    with (
        deltasql.connect(second_uri) as other,
        pytest.raises(OwnershipError, match="is managed by catalog"),
    ):
        other.import_table(table.location, "orders", engine="local")


# A process may die at every step.

POINTS = {
    "before-undrop": 1,
    "before-undrop-commit": 1,
    "after-undrop": 0,
    "after-undrop-marker": 0,
}


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_is_killed_leaves_the_table_dropped_or_back(
    catalog, table, catalog_uri, point
):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    catalog.drop("orders")
    catalog.new_epoch()
    env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:1"}
    process = processes.start("undrop", catalog_uri, "orders", env=env)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    with deltasql.connect(catalog_uri) as again:
        assert len(again.dropped_tables()) == POINTS[point]
        if POINTS[point]:
            again.undrop_table("orders")
        again.new_epoch()
    with deltasql.connect(catalog_uri) as again:
        again.mirror.recover("orders")
        again.table("orders").append(rows(2))
        assert ids(again.table("orders")) == [1, 2]
        check_invariants(again, "orders")


def test_processes_that_undrop_create_and_drop_at_once_agree(catalog, table, catalog_uri, tmp_path):
    table.append(rows(1))
    catalog.drop("orders")
    calls = [("undrop", catalog_uri, "orders")] * 2
    calls += [("create", catalog_uri, "orders", str(tmp_path / "new"))]
    told = [processes.finish(process) for process in [processes.start(*call) for call in calls]]
    assert sorted(told).count("done") == 1
    assert [info.name for info in catalog.tables()] == ["orders"]
    catalog.table("orders").append(rows(5))
    check_invariants(catalog, "orders")


def test_a_shared_file_is_kept_for_a_dropped_table(catalog, table, tmp_path):
    """Vacuum counts the references of dropped tables, so that a clone can come back."""
    table.append(rows(1))
    [path] = paths(table)
    clone = a_table(catalog, tmp_path, "clone")
    clone.commit([an_add((folder(table) / path).as_uri())])
    catalog.drop("clone")
    table.append(rows(2))
    [other] = paths(table) - {path}
    table.delete("day = 'a'")
    table.wait_mirrored(timeout=10)
    table.vacuum(retain=timedelta(0), allow_short_retention=True, dry_run=False)
    assert (folder(table) / path).exists()
    assert not (folder(table) / other).exists()
    assert catalog.undrop_table("clone").version == 1
