"""SQL restored from a backup, a cloned database, a lost log: each from a real damaged state."""

import shutil
from pathlib import Path

import pytest

import deltasql
from backups import Backup
from builders import a_table, an_add, ids, rows
from deltasql.errors import MirrorConflictError, OwnershipError, TableStateError
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from deltasql.testing.invariants import check_invariants
from readers import READERS, read_deltasql


def log_of(table) -> Path:
    return Path(table.location.removeprefix("file://"))


@pytest.fixture
def backup(catalog_uri, tmp_path, request):
    server = request.getfixturevalue("postgres_server") if "sqlite" not in catalog_uri else None
    return Backup(catalog_uri, tmp_path, server)


def recover(uri: str, name: str = "orders"):
    with deltasql.connect(uri) as catalog:
        catalog.new_epoch()
    with deltasql.connect(uri) as catalog:
        return catalog.mirror.recover(name)


@pytest.mark.req("R87")
def test_a_restored_older_backup_is_fenced_and_adopts_what_the_log_has(
    catalog_uri, tmp_path, backup
):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    backup.take()
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        table.append(rows(2), commit_id="second")
        table.alter(properties={"k": "v"})
        table.delete("day = 'a'")
        table.append(rows(3, day="b"), txn=("app", 7))
        expected = read_deltasql(table)
        digests = [entry.digest for entry in table.history()]
    backup.put_back()
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        assert table.version == 1
        with pytest.raises(OwnershipError, match="SQL has table orders up to 1"):
            table.commit([an_add("refused")])
        assert (table.state, table.version) == ("conflict", 1)  # nothing was acknowledged
        with pytest.raises(TableStateError):
            table.commit([an_add("more")])
    done = recover(catalog_uri)
    assert (done.adopted, done.version) == (4, 5)
    with deltasql.connect(catalog_uri) as catalog:
        table = catalog.table("orders")
        assert read_deltasql(table) == expected
        assert [entry.digest for entry in table.history()] == digests
        assert [entry.origin for entry in table.history()][:4] == ["adopted"] * 4
        assert table.detail()["properties"]["k"] == "v"
        # tokens and applications are those of the commits: a repeat is found out
        assert table.append(rows(2), commit_id="second") == 2
        assert table.append(rows(3), txn=("app", 7)) == 5
        assert table.append(rows(9)) == 6
        check_invariants(catalog, "orders")
        assert catalog.mirror.verify("orders") == []


def test_the_original_of_a_clone_that_took_over_is_fenced(catalog_uri, tmp_path, backup):
    """Two copies of one database must never both write to one log."""
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    backup.take()
    recover(catalog_uri)
    backup.put_back()
    with deltasql.connect(catalog_uri) as clone:
        table = clone.table("orders")
        with pytest.raises(OwnershipError):
            table.commit([an_add("x")])
        assert (table.state, table.version) == ("conflict", 1)
        assert not (log_of(table) / commit_key(2)).exists()


def test_processes_of_the_old_epoch_commit_nothing(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as old:
        table = a_table(old, tmp_path)
        table.append(rows(1))
        recover(catalog_uri)
        with pytest.raises(OwnershipError, match="epoch"):
            table.append(rows(2))
        assert old.table("orders").version == 1


@pytest.mark.parametrize("reader", list(READERS))
def test_a_lost_log_is_rebuilt_byte_for_byte(catalog_uri, tmp_path, reader):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        for number in range(12):
            table.append(rows(number))
        expected = read_deltasql(table)
    folder = log_of(table) / "_delta_log"
    before = {file.name: file.read_bytes() for file in folder.glob("*.json")}
    shutil.rmtree(folder)
    done = recover(catalog_uri)
    assert (done.put, done.version) == (13, 12)
    assert {file.name: file.read_bytes() for file in folder.glob("*.json")} == before
    assert READERS[reader](str(log_of(table))) == expected
    with deltasql.connect(catalog_uri) as catalog:
        catalog.mirror.run_once()
        check_invariants(catalog, "orders")
        assert catalog.mirror.verify("orders") == []


@pytest.mark.req("R87")
def test_a_foreign_commit_above_sql_is_adopted_by_the_operators_word(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        (old,) = table.snapshot().files(["path"]).column("path").to_pylist()
        text = (
            '{"commitInfo":{"timestamp":1,"operation":"DELETE"}}\n'
            f'{{"remove":{{"path":"{old}","dataChange":true,"deletionTimestamp":5}}}}\n'
            '{"remove":{"path":"never-seen","dataChange":true,"deletionTimestamp":6}}\n'
        )
        (log_of(table) / commit_key(2)).write_text(text)
        (found,) = catalog.mirror.verify("orders")
        assert str(found.difference) == "commit_not_in_catalog"
        assert [one.done for one in catalog.mirror.repair("orders")] == [False]
        assert [one.done for one in catalog.mirror.repair("orders", adopt=True)] == [True]
        assert (table.version, ids(table)) == (2, [])
        assert table.history(1)[0].operation == "DELETE"
        assert inspect(catalog).metastore.payload(table.table_id, 2) == text.encode()
        assert table.append(rows(5)) == 3
        assert catalog.mirror.verify("orders") == []


def test_a_foreign_commit_that_cannot_be_understood_changes_nothing(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        (log_of(table) / commit_key(1)).write_text('{"add":{"path":1}}\n')
        with pytest.raises(deltasql.errors.MalformedActionError, match="line 1"):
            catalog.mirror.repair("orders", adopt=True)
        assert table.version == 0


def test_adopted_bytes_need_not_be_canonical(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        payload = serialize_actions([an_add("f")]).replace(b'"size"', b' "size"').rstrip(b"\n")
        (log_of(table) / commit_key(1)).write_bytes(payload)
        catalog.mirror.repair("orders", adopt=True)
        assert inspect(catalog).metastore.payload(table.table_id, 1) == payload
        assert catalog.mirror.verify("orders") == []


class _Stale:
    """A store whose listings end at an old version of the log."""

    def __init__(self, inner, newest: int) -> None:
        self._inner, self._newest = inner, newest

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list_from(self, prefix, start_after=""):
        found = self._inner.list_from(prefix, start_after)
        last = commit_key(self._newest) if self._newest >= 0 else ""
        return (info for info in found if info.key <= last)


@pytest.mark.parametrize("newest", [1, -1], ids=["an old one", "an empty one"])
def test_a_recovery_does_not_rest_on_a_listing(catalog_uri, tmp_path, backup, newest):
    """SQL's own version 2 is not the log's: its 3 must not be put on top of ours."""
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    backup.take()
    with deltasql.connect(catalog_uri) as catalog:
        for number in (2, 3):
            catalog.table("orders").append(rows(number))
    backup.put_back()
    # the store does not answer the question whose log it is: the commit is SQL's alone
    silent = Fault(Kind.FAIL_BEFORE, "get", key=OWNER_KEY, times=None)
    with deltasql.connect(
        catalog_uri, wrap_store=lambda store: FaultyStore(store, [silent])
    ) as catalog:
        assert catalog.table("orders").commit([an_add("unmirrored")]) == 2
        catalog.new_epoch()
    with deltasql.connect(catalog_uri, wrap_store=lambda store: _Stale(store, newest)) as catalog:
        with pytest.raises(MirrorConflictError, match="another commit"):
            catalog.mirror.recover("orders")
        assert catalog.table("orders").version == 2
        assert [entry.origin for entry in catalog.table("orders").history()] == ["commit"] * 3
