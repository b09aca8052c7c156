"""Before its first commit to a table a process makes sure that the log is ours and not ahead."""

from datetime import timedelta

import pytest

import deltasql
import servers
from backups import Backup
from builders import NO_MIRROR, SCHEMA, a_table, an_add, rows
from deltasql.errors import OwnershipError, StorageUnavailableError, TableStateError
from deltasql.log.owner_marker import OWNER_KEY
from deltasql.settings import MirrorSettings, Settings
from deltasql.testing.crash_points import hooked
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from deltasql.testing.invariants import check_invariants

MODES = ["inline", "worker", "off"]


@pytest.fixture
def restored(catalog_uri, tmp_path, request):
    """A catalog that was restored from a backup: SQL is at 1, the log is at 3."""
    server = request.getfixturevalue("postgres_server") if "sqlite" not in catalog_uri else None
    backup = Backup(catalog_uri, tmp_path, server)
    with deltasql.connect(catalog_uri) as catalog:
        a_table(catalog, tmp_path).append(rows(1))
    backup.take()
    with deltasql.connect(catalog_uri) as catalog:
        catalog.table("orders").append(rows(2))
        catalog.table("orders").append(rows(3))
    backup.put_back()
    return catalog_uri


WRITES = {
    "append": lambda catalog: catalog.table("orders").append(rows(9)),
    "commit": lambda catalog: catalog.table("orders").commit([an_add("f")]),
    "alter": lambda catalog: catalog.table("orders").alter(properties={"k": "v"}),
    "delete": lambda catalog: catalog.table("orders").delete("day = 'a'"),
}


@pytest.mark.req("R87")
@pytest.mark.parametrize("write", list(WRITES))
def test_a_restored_backup_acknowledges_no_commit(restored, write):
    events = []
    with deltasql.connect(restored, sink=events.append) as catalog:
        with pytest.raises(OwnershipError, match="SQL has table orders up to 1"):
            WRITES[write](catalog)
        table = catalog.table("orders")
        assert (table.version, table.state) == (1, "conflict")
        assert [event.name for event in events if event.is_bad] == ["table_fenced"]
        with pytest.raises(TableStateError):
            WRITES[write](catalog)
    with deltasql.connect(restored) as catalog:
        catalog.new_epoch()
    with deltasql.connect(restored) as catalog:
        assert catalog.mirror.recover("orders").version == 3
        assert catalog.table("orders").append(rows(9)) == 4
        check_invariants(catalog, "orders")


@pytest.mark.parametrize("mode", MODES)
def test_it_is_found_out_however_the_table_is_mirrored(restored, mode):
    settings = Settings(mirror=MirrorSettings(mode=mode))
    with deltasql.connect(restored, settings=settings) as catalog:
        with pytest.raises(OwnershipError), catalog.transaction() as tx:
            tx.table("orders").append(rows(9))
        assert catalog.table("orders").version == 1


def test_a_process_that_dies_where_it_has_fenced_the_table_leaves_it_fenced(restored):
    class StopError(BaseException):
        """The process ends here."""

    def stop(name):
        if name == "after-commit-fenced":
            raise StopError

    with deltasql.connect(restored) as catalog:
        with hooked(stop), pytest.raises(StopError):
            catalog.table("orders").append(rows(9))
        assert (catalog.table("orders").version, catalog.table("orders").state) == (1, "conflict")


def test_the_log_is_looked_at_once(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        a_table(catalog, tmp_path)
    asked = []

    class Asked:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def get(self, key):
            asked.append(key)
            return self._inner.get(key)

    with deltasql.connect(catalog_uri, settings=NO_MIRROR, wrap_store=Asked) as catalog:
        for number in range(3):
            catalog.table("orders").append(rows(number))
        assert asked.count(OWNER_KEY) == 1


def test_a_store_that_does_not_answer_stops_no_commit(catalog_uri, s3_server, fresh_name):
    """SQL takes commits while the log cannot be reached; the mirror looks before its first put."""
    options = servers.s3_options(s3_server.endpoint)
    with deltasql.connect(catalog_uri, storage_options=options) as catalog:
        catalog.create_table("orders", location=f"s3://tables/{fresh_name}", schema=SCHEMA)
    silent = [
        Fault(Kind.FAIL_BEFORE, "get", key=OWNER_KEY, times=1),
        Fault(Kind.DELAY, "get", key=OWNER_KEY, seconds=5.0, times=1),
    ]
    settings = Settings(mirror=MirrorSettings(inline_deadline=timedelta(milliseconds=100)))
    for number, fault in enumerate(silent, 1):
        store = {"wrap_store": lambda inner, one=fault: FaultyStore(inner, [one])}
        with deltasql.connect(
            catalog_uri, storage_options=options, settings=settings, **store
        ) as catalog:
            assert (
                catalog.table("orders").commit([an_add(f"f{number}", partition_values={})])
                == number
            )
    with deltasql.connect(catalog_uri, storage_options=options) as catalog:
        catalog.table("orders").wait_mirrored(timeout=30)
        assert catalog.mirror.verify("orders") == []


def test_a_local_table_whose_marker_is_gone_is_still_refused(catalog_uri, tmp_path):
    with deltasql.connect(catalog_uri) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
        store = table.store
        store.delete(OWNER_KEY)
    with deltasql.connect(catalog_uri) as catalog, pytest.raises(StorageUnavailableError):
        catalog.table("orders").append(rows(2))
