"""`deltasql recover` after real damage, as an operator meets it: what it says, what is there."""

import json
import shutil
from pathlib import Path

import pytest

import deltasql
from backups import Backup
from builders import a_table, ids, rows
from deltasql.errors import OwnershipError
from deltasql.protocol.log_names import commit_key
from deltasql.testing.invariants import check_invariants

pytestmark = pytest.mark.verify

DAY = 24 * 3600 * 1000
START = 1_800_000_000_000


@pytest.fixture
def backup(catalog_uri, tmp_path, request):
    server = request.getfixturevalue("postgres_server") if "sqlite" not in catalog_uri else None
    return Backup(catalog_uri, tmp_path, server)


@pytest.fixture
def run(run, catalog_uri):
    def call(*arguments: str, code: int = 0) -> tuple[list[dict], str]:
        done = run("-u", catalog_uri, "-o", "json", *arguments, code=code)
        return json.loads(done.stdout or "[]"), done.stderr

    return call


def log_of(table) -> Path:
    return Path(table.location.removeprefix("file://")) / "_delta_log"


@pytest.mark.req("R99")
def test_a_restored_older_backup(catalog_uri, tmp_path, backup, run):
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    backup.take()
    with deltasql.connect(catalog_uri) as catalog:
        for number in (2, 3):
            catalog.table("orders").append(rows(number))
    backup.put_back()
    found, _ = run("mirror", "verify", "orders", code=3)
    assert [one["difference"] for one in found] == ["commit_not_in_catalog"] * 2
    (done,), _ = run("recover", "--yes")
    assert done == {
        "table": "orders",
        "adopted": 2,
        "put": 0,
        "version": 3,
        "what": "the log was ahead of SQL",
    }
    run("mirror", "verify", "orders")
    with deltasql.connect(catalog_uri) as catalog:
        assert ids(catalog.table("orders")) == [1, 2, 3]
        assert catalog.table("orders").append(rows(4)) == 4
        check_invariants(catalog, "orders")


@pytest.mark.req("R99")
def test_a_lost_log_directory(catalog_uri, tmp_path, run):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(11):
            table.append(rows(number))
    before = {file.name: file.read_bytes() for file in log_of(table).glob("*.json")}
    shutil.rmtree(log_of(table))
    found, _ = run("mirror", "verify", "orders", code=3)
    assert {one["difference"] for one in found} == {
        "missing_commit",
        "missing_file",
        "last_checkpoint_wrong",
    }
    (done,), _ = run("recover", "orders", "--yes")
    assert (done["adopted"], done["put"], done["version"]) == (0, 12, 11)
    assert done["what"] == "the log was lost and is rebuilt from SQL"
    assert {file.name: file.read_bytes() for file in log_of(table).glob("*.json")} == before
    run("mirror", "run", "--once")
    run("mirror", "verify", "orders")


@pytest.mark.req("R99")
def test_a_cloned_database(catalog_uri, tmp_path, backup, run):
    """The clone takes over; the original says whose log it is and writes nothing."""
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    backup.take()
    (done,), _ = run("recover", "--yes")
    assert (done["adopted"], done["put"], done["what"]) == (0, 0, "the log is SQL's own")
    with deltasql.connect(catalog_uri) as clone:
        clone.table("orders").append(rows(2))
    kept = {file.name: file.read_bytes() for file in log_of(table).iterdir()}
    backup.put_back()
    found, _ = run("mirror", "verify", "orders", code=3)
    assert [one["difference"] for one in found] == ["commit_not_in_catalog", "wrong_owner"]
    with deltasql.connect(catalog_uri) as original:
        with pytest.raises(OwnershipError):
            original.table("orders").append(rows(9))
        assert original.table("orders").state == "conflict"
        assert original.table("orders").version == 1  # nothing was acknowledged
    assert {file.name: file.read_bytes() for file in log_of(table).iterdir()} == kept


@pytest.mark.req("R99")
def test_a_backup_older_than_what_the_log_still_holds(catalog_uri, tmp_path, backup, run):
    """Versions that SQL lacks were cleaned out of the log: nobody may go on as if there were none.

    The commit right above SQL's newest is not there, so only the hint shows that the log is ahead.
    """
    clock = {"now": START}

    def connect():
        return deltasql.connect(catalog_uri, clock=lambda: clock["now"])

    with connect() as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    backup.take()
    with connect() as catalog:
        table = catalog.table("orders")
        for number in range(2, 12):
            clock["now"] += 10 * DAY
            table.append(rows(number))
        catalog.mirror.checkpoint("orders", 10)
        clock["now"] += 40 * DAY
        assert catalog.mirror.cleanup("orders")
    backup.put_back()
    kept = {file.name: file.read_bytes() for file in log_of(table).iterdir()}
    with connect() as catalog:
        table = catalog.table("orders")
        assert (table.version, (log_of(table) / commit_key(2)).exists()) == (1, False)
        with pytest.raises(OwnershipError, match="a checkpoint of version 10"):
            table.append(rows(9))
        assert (table.state, table.version) == ("conflict", 1)
    assert {file.name: file.read_bytes() for file in log_of(table).iterdir()} == kept
    backup.put_back()
    told, error = run("recover", "--yes", code=5)
    assert "reaches version 11 but lacks 2" in told[0]["what"]
    assert "Restore a newer backup" in error
    assert {file.name: file.read_bytes() for file in log_of(table).iterdir()} == kept
