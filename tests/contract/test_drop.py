"""Drop and purge: what speaks against them is looked up in the dropping transaction."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from builders import NO_MIRROR, SCHEMA, a_table, an_add, ids, rows
from deltasql.errors import (
    MirrorLagError,
    OwnershipError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
    VacuumedError,
)
from deltasql.metastore.table_row import TableState
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from hooks import once


def folder(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def files(table) -> set[str]:
    return {str(f.relative_to(folder(table))) for f in folder(table).rglob("*") if f.is_file()}


def test_a_commit_before_the_dropping_transaction_reaches_the_log_or_refuses_the_drop(
    catalog, table, catalog_uri
):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)

    def append():
        with deltasql.connect(catalog_uri, settings=NO_MIRROR) as other:
            other.table("orders").append(rows(2))

    hook = once("before-drop", append)
    with hooked(hook), pytest.raises(MirrorLagError, match="up to 2, its log only up to 1"):
        catalog.drop("orders")
    assert hook.passed
    assert ids(catalog.table("orders")) == [1, 2]
    catalog.drop("orders")
    assert (folder(table) / commit_key(2)).exists()


@pytest.mark.parametrize("purge", [False, True])
def test_a_drop_of_an_epoch_that_is_over_is_refused(catalog, table, catalog_uri, purge):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    before = files(table)

    def recover():
        with deltasql.connect(catalog_uri) as other:
            other.new_epoch()

    with hooked(once("before-drop", recover)), pytest.raises(OwnershipError, match="epoch 2"):
        catalog.drop("orders", purge=purge)
    assert files(table) == before
    assert [info.name for info in catalog.tables()] == ["orders"]


def test_a_cloned_catalog_does_not_purge_the_live_table(tmp_path):
    uri, copy = (f"deltasql://sqlite/{tmp_path}/{name}.db" for name in ("live", "copy"))
    with deltasql.connect(uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    shutil.copy(tmp_path / "live.db", tmp_path / "copy.db")
    with deltasql.connect(uri) as catalog, deltasql.connect(copy) as clone:
        catalog.table("orders").append(rows(2))
        before = files(table)
        with pytest.raises(OwnershipError, match="SQL has table orders up to 1"):
            clone.drop("orders", purge=True)
        assert files(table) == before
        assert [info.name for info in clone.tables()] == ["orders"]
        catalog.new_epoch()
    with deltasql.connect(uri) as catalog:
        catalog.mirror.recover("orders")
        catalog.drop("orders", purge=True)
    assert files(table) == set()


def test_a_clone_made_before_the_dropping_transaction_keeps_its_files(catalog, table, tmp_path):
    table.append(rows(1))
    [path] = table.snapshot().files(["path"]).column("path").to_pylist()
    clone = a_table(catalog, tmp_path, "clone")
    add = an_add((folder(table) / path).as_uri())
    hook = once("before-drop", lambda: clone.commit([add]))
    with hooked(hook), pytest.raises(TableStateError, match="Another table refers to"):
        catalog.drop("orders", purge=True)
    assert hook.passed
    assert (folder(table) / path).exists()


def test_a_clone_of_files_that_a_purge_deletes_is_refused(catalog, table, tmp_path):
    table.append(rows(1))
    [path] = table.snapshot().files(["path"]).column("path").to_pylist()
    clone = a_table(catalog, tmp_path, "clone")
    add = an_add((folder(table) / path).as_uri())

    def commit():
        with pytest.raises(VacuumedError, match="was purged"):
            clone.commit([add])

    hook = once("before-purge", commit)
    with hooked(hook):
        catalog.drop("orders", purge=True)
    assert hook.passed
    assert clone.version == 0
    # a new table at the place has files of its own
    again = catalog.create_table(
        "orders", location=table.location, schema=SCHEMA, partition_by=["day"]
    )
    again.append(rows(2))
    [path] = again.snapshot().files(["path"]).column("path").to_pylist()
    assert clone.commit([an_add((folder(table) / path).as_uri())]) == 1


def test_a_commit_before_the_purge_leaves_no_file_behind(catalog, table):
    table.append(rows(1))
    hook = once("before-drop", lambda: table.append(rows(2)))
    with hooked(hook):
        catalog.drop("orders", purge=True)
    assert hook.passed
    assert files(table) == set()


def test_a_table_is_dropped_once(catalog, table, catalog_uri):
    def drop():
        with deltasql.connect(catalog_uri) as other:
            other.drop("orders")

    with hooked(once("before-drop", drop)), pytest.raises(TableNotFoundError):
        catalog.drop("orders", purge=True)
    assert (folder(table) / commit_key(0)).exists()


LEFT = {"dl_vacuum_marks": 1, "dl_leases": 2, "dl_files": 1}


def test_a_purge_leaves_no_rows_of_work(catalog, table, tmp_path):
    other = a_table(catalog, tmp_path, "other")
    database = inspect(catalog).database
    for number, one in enumerate((table, other)):
        one.append(rows(1))
        key = one.table_id
        with database.write() as tx:
            tx.execute_many("insert_vacuum_marks", {"key": ["x"]}, table_id=key)
            tx.execute(
                "note_open_work",
                table_id=key,
                purpose=f"write:{number}",
                holder="h",
                started_at=1,
                expires_at=2,
            )
        lease = inspect(catalog).connection.leases.acquire(key, "vacuum")
        inspect(catalog).mirroring.verifications.begin(lease)
    catalog.drop("orders", purge=True)
    assert {name: count(database, name, table.table_id) for name in LEFT} == dict.fromkeys(LEFT, 0)
    assert {name: count(database, name, other.table_id) for name in LEFT} == LEFT
    assert inspect(catalog).mirroring.verifications.find(table.table_id) is None
    assert inspect(catalog).mirroring.verifications.find(other.table_id) is not None


def count(database, name, table_id) -> int:
    key = "(select table_key from dl_tables where table_id = :table_id)"
    place = f"table_key = {key}" if name == "dl_files" else "table_id = :table_id"
    text = f"select count(*) as n from {name} where {place}"
    found = database.arrow(text, {"table_id": table_id}, pa.schema([("n", pa.int64())]))
    return found.column("n").to_pylist()[0]


@pytest.mark.parametrize("batch", [False, True])
def test_a_put_under_way_does_not_stay_in_the_log_of_the_next_table(catalog_uri, tmp_path, batch):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        inspect(catalog).engine.catch_up(table.table_id, seconds=10)
        for number in range(2 if batch else 1):
            table.append(rows(number))
        made = []

        def replace():
            catalog.drop("orders", purge=True)
            made.append(catalog.create_table("orders", location=table.location, schema=SCHEMA))
            inspect(catalog).engine.catch_up(made[0].table_id, seconds=10)

        row = inspect(catalog).metastore.table("orders")
        engine = inspect(catalog).engine
        with hooked(once("before-put", replace)):
            if batch:
                engine.mirror_batch(row)
            else:
                engine.mirror_version(row, 1)
        [again] = made
        assert {name for name in files(again) if name.endswith(".json")} == {commit_key(0)}
        for number in range(3):
            again.append(rows(7 + number))
        engine.catch_up(again.table_id, seconds=10)
        assert inspect(catalog).metastore.table("orders").mirrored_through == 3
        database = inspect(catalog).database
        assert count(database, "dl_mirror_status", table.table_id) == 0
        check_invariants(catalog, "orders")


class StopError(Exception):
    """The process ends here."""


def test_a_put_that_nobody_took_back_stops_the_next_table_and_loses_nothing(catalog, table):
    table.append(rows(1))
    table.wait_mirrored(timeout=10)
    engine, book = inspect(catalog).engine, inspect(catalog).metastore
    catalog.mirror.pause("orders")
    table.append(rows(2))
    row = book.table("orders")
    made = []

    def hook(name):
        if name == "before-put" and not made:
            made.append(None)
            catalog.drop("orders", purge=True)
            made[0] = catalog.create_table("orders", location=table.location, schema=SCHEMA)
        if name == "before-put-taken-back":
            raise StopError

    with hooked(hook), pytest.raises(StopError):
        engine.mirror_version(row, 2)
    [again] = made
    stale = (folder(table) / commit_key(2)).read_bytes()
    for number in (7, 8):
        again.append(rows(number))
    assert (folder(table) / commit_key(2)).read_bytes() == stale
    assert ids(again) == [7, 8]
    assert book.table("orders").state is TableState.CONFLICT


@pytest.mark.parametrize("taking", ["import", "create"])
def test_no_table_takes_a_location_while_a_purge_deletes_there(
    catalog, catalog_uri, tmp_path, taking
):
    """What the purge still deletes would be the other table's files and log."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as quiet:
        made = a_table(catalog if taking == "import" else quiet, tmp_path, "old")
    if taking == "import":
        made.append(rows(1))
    refused = []

    def take():
        with deltasql.connect(catalog_uri) as other, pytest.raises(TableExistsError):
            if taking == "import":
                other.import_table(made.location, name="new", engine="local")
            else:
                other.create_table("new", location=made.location, schema=SCHEMA)
        refused.append(taking)

    with hooked(once("before-purge", take)):
        catalog.drop("old", purge=True, force=True)
    assert refused == [taking]
    assert files(made) == set()
    table = catalog.create_table("new", location=made.location, schema=SCHEMA)
    table.append(rows(2))
    check_invariants(catalog, "new")


def test_a_purge_that_died_frees_the_location_when_its_lease_is_over(
    catalog, catalog_uri, tmp_path
):
    class StopError(BaseException):
        """The process ends here."""

    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as quiet:
        made = a_table(quiet, tmp_path, "old")

    def stop():
        database = inspect(catalog).database
        with database.write() as tx:  # as if the dead process had it a while ago
            long_ago = database.queries.constants["long_ago"]
            text = f"update dl_leases set expires_at = {long_ago}, holder = 'dead'"
            tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())
        raise StopError

    with hooked(once("before-purge", stop)), pytest.raises(StopError):
        catalog.drop("old", purge=True, force=True)
    table = catalog.create_table("new", location=made.location, schema=SCHEMA)
    table.append(rows(2))
    check_invariants(catalog, "new")
