"""Commits that a log holds above SQL's newest version come into SQL by the import's loader."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import msgspec
import pyarrow as pa
import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, ids, paths, rows, some
from deltasql.errors import (
    BadArgumentError,
    LogGapError,
    MalformedActionError,
    TableStateError,
    VacuumedError,
)
from deltasql.maintenance.vacuum_store import VacuumBatch, VacuumStore
from deltasql.metastore.leases import Leases
from deltasql.protocol.actions import Add, Cdc, Metadata
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, place_of, put_foreign

pytestmark = pytest.mark.req("R87")


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri) as catalog:
        yield catalog


@pytest.fixture
def table(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    table.append(rows(1))
    return table


def recover(catalog_uri):
    with deltasql.connect(catalog_uri) as catalog:
        catalog.new_epoch()
    with deltasql.connect(catalog_uri) as catalog:
        return catalog.mirror.recover("orders")


def with_column(metadata: Metadata, name: str) -> Metadata:
    schema = json.loads(metadata.schema_string)
    schema["fields"].append({"name": name, "type": "long", "nullable": True, "metadata": {}})
    return msgspec.structs.replace(metadata, schema_string=json.dumps(schema))


@contextmanager
def recovered(catalog_uri):
    """The table of a catalog opened anew: who had it open is of an older epoch."""
    with deltasql.connect(catalog_uri) as catalog:
        yield catalog.table("orders")
        catalog.mirror.run_once()
        assert catalog.mirror.verify("orders") == []
        check_invariants(catalog, "orders")


def test_very_many_commits_are_adopted_with_their_bytes(catalog, catalog_uri, table):
    """In one transaction, with removes, and with adds that replace a live file."""
    payloads, live = [], {}
    for version in range(2, 302):
        actions = [a_foreign_file(table, version, day=f"d{version % 7}")]
        if version % 3 == 0:
            actions.append(a_remove(live.pop(next(iter(live)))))
        if version % 5 == 0:
            again = live[next(reversed(live))]
            actions.append(msgspec.structs.replace(again, tags={"seen": str(version)}))
        live |= {add.path: add for add in actions if isinstance(add, Add)}
        payloads.append(put_foreign(table, version, *actions))
    done = recover(catalog_uri)
    assert (done.adopted, done.version) == (300, 301)
    stored = [inspect(catalog).metastore.payload(table.table_id, v) for v in range(2, 302)]
    assert stored == payloads
    with recovered(catalog_uri) as fresh:
        numbers = [int(path.split("-")[1].removesuffix(".parquet")) for path in live]
        assert ids(fresh) == sorted([1, *numbers])
        for day in range(7):
            wanted = {path for path in live if path.startswith(f"day=d{day}/")}
            assert paths(fresh, where=f"day = 'd{day}'") == wanted


def test_new_metadata_amid_others_is_indexed_from_its_version_on(catalog, catalog_uri, table):
    metadata = with_column(table.snapshot().metadata, "price")
    put_foreign(table, 2, a_foreign_file(table, 10))
    put_foreign(table, 3, metadata, a_foreign_file(table, 20))
    priced = msgspec.structs.replace(
        a_foreign_file(table, 30),
        stats='{"numRecords":1,"minValues":{"id":30,"price":7},"maxValues":{"id":30,"price":7},'
        '"nullCount":{"id":0,"price":0}}',
    )
    put_foreign(table, 4, priced)
    assert recover(catalog_uri).adopted == 3
    with recovered(catalog_uri) as fresh:
        assert not any("-30" in path for path in paths(fresh, where="price = 8"))
        assert any("-30" in path for path in paths(fresh, where="price = 7"))
        fresh.append(pa.table({"id": [40], "name": ["n"], "day": ["b"], "price": [8]}))
        assert any(path.startswith("day=b/") for path in paths(fresh, where="price = 8"))


def test_a_commit_that_cannot_be_read_keeps_those_before_it(catalog, catalog_uri, table):
    for version in (2, 3):
        put_foreign(table, version, a_foreign_file(table, version * 10))
    broken = place_of(table) / commit_key(4)
    broken.write_bytes(b'{"add":{"path":1}}\n')
    put_foreign(table, 5, a_foreign_file(table, 50))
    with pytest.raises(MalformedActionError, match="ersion 4"):
        recover(catalog_uri)
    assert catalog.table("orders").version == 3
    put_foreign(table, 4, a_foreign_file(table, 40))
    assert recover(catalog_uri).adopted == 2
    with recovered(catalog_uri) as fresh:
        assert ids(fresh) == [1, 20, 30, 40, 50]


def test_versions_below_that_wait_for_the_mirror_still_reach_the_log(catalog_uri, tmp_path):
    """The log lacks a version of SQL and holds a foreign one above: nothing is passed over."""
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = a_table(catalog, tmp_path)
        table.append(rows(1))
    with deltasql.connect(catalog_uri) as catalog:
        catalog.mirror.run_once()
    with deltasql.connect(catalog_uri, settings=NO_MIRROR) as catalog:
        table = catalog.table("orders")
        table.append(rows(2))
        table.append(rows(3))
        put_foreign(table, 4, a_foreign_file(table, 40))
        row = table.refresh()
        assert (row.current_version, row.mirrored_through) == (3, 1)
        with deltasql.connect(catalog_uri) as mirroring:
            mirroring.mirror.repair("orders", version=None, adopt=True)
            mirroring.mirror.run_once()
            assert ids(mirroring.table("orders")) == [1, 2, 3, 40]
            assert mirroring.mirror.verify("orders") == []
            check_invariants(mirroring, "orders")
    numbers = sorted(int(f.stem) for f in (place_of(table) / "_delta_log").glob("0*.json"))
    assert numbers == [0, 1, 2, 3, 4]


def test_a_gap_is_named_and_what_is_below_it_stays(catalog, catalog_uri, table):
    put_foreign(table, 2, a_foreign_file(table, 20))
    put_foreign(table, 4, a_foreign_file(table, 40))
    with pytest.raises(LogGapError, match="lacks 3"):
        recover(catalog_uri)
    assert catalog.table("orders").version == 2
    with pytest.raises(TableStateError, match="version 4 cannot be adopted"):
        catalog.mirror.repair("orders", adopt=True)


def test_an_emptied_combination_is_passed_over(catalog, catalog_uri, table):
    gone = a_foreign_file(table, 20, day="b")
    put_foreign(table, 2, gone)
    put_foreign(table, 3, a_remove(gone))
    recover(catalog_uri)
    with recovered(catalog_uri) as fresh:
        database = fresh.snapshot().database
        known = database.fetch_all("partitions", table_id=fresh.table_id, version=3)
        assert [text for (text,) in known] == ['{"day":"a"}']
        assert paths(fresh, where="day = 'b'", version=2) == {gone.path}
        fresh.append(rows(21, day="b"))
        assert fresh.scan(where="day = 'b'").to_arrow()["id"].to_pylist() == [21]


@pytest.mark.parametrize("kind", ["data", "change data"])
def test_a_file_that_vacuum_is_deleting_is_refused(catalog, table, kind):
    add = a_foreign_file(table, 20)
    cdc = Cdc(
        path="_change_data/c.parquet", partition_values={"day": "a"}, size=1, data_change=False
    )
    put_foreign(table, 2, add, cdc)
    metastore, row = inspect(catalog).metastore, table.refresh()
    leases = Leases(metastore.database, "vacuum")
    vacuum = VacuumStore(metastore.database, leases, metastore.identity.epoch)
    horizon = vacuum.horizon(row, cutoff=0, orphans_before=2**60)
    key = add.path if kind == "data" else cdc.path
    batch = VacuumBatch(frozenset({key}))
    assert vacuum.mark(leases.acquire(row.table_id, "vacuum"), row, horizon, batch)
    with pytest.raises(VacuumedError, match="being deleted by vacuum"):
        catalog.mirror.repair("orders", adopt=True)
    assert table.version == 1


def test_tokens_that_are_taken_and_times_that_go_backwards(catalog, catalog_uri, table):
    """Two commits of another writer with one token, and in-commit times that fall."""
    newest = table.refresh().last_ict
    for number, back in enumerate((10_000, 5_000, 20_000)):
        put_foreign(
            table,
            2 + number,
            a_foreign_file(table, 20 + number),
            txn_id="the-same",
            in_commit_timestamp=newest - back,
        )
    recover(catalog_uri)
    with deltasql.connect(catalog_uri) as reopened:
        fresh = reopened.table("orders")
        history = {entry.version: entry for entry in fresh.history()}
        assert history[2].commit_id == "the-same"
        assert len({entry.commit_id for entry in some(history.values())}) == len(history) == 5
        times = [history[version].committed_at for version in range(2, 5)]
        assert times == [newest - 10_000, newest - 5_000, newest - 20_000]
        fresh.append(rows(99))
        after = {entry.version: entry.committed_at for entry in fresh.history()}
        assert after[5] > max(time for version, time in after.items() if version < 5)


def test_an_adoption_by_two_at_once_adopts_each_version_once(catalog, catalog_uri, table):
    for version in range(2, 30):
        put_foreign(table, version, a_foreign_file(table, version))

    def repair(_):
        with deltasql.connect(catalog_uri) as other:
            try:
                return [one.done for one in other.mirror.repair("orders", adopt=True)]
            except TableStateError as error:
                return str(error)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(repair, range(2)))
    assert any(isinstance(result, list) for result in results), results
    recover(catalog_uri)
    with recovered(catalog_uri) as fresh:
        assert ids(fresh) == [1, *range(2, 30)]


@pytest.mark.parametrize(
    "odd",
    [
        {"txn": {"appId": "a\0b", "version": 1}},
        {"txn": {"appId": random.Random(1).randbytes(5000).hex(), "version": 1}},
        {"domainMetadata": {"domain": "d", "configuration": "\0", "removed": False}},
    ],
)
def test_what_comes_before_a_commit_that_the_database_cannot_hold_is_adopted(
    catalog, catalog_uri, table, odd
):
    put_foreign(table, 2, a_foreign_file(table, 20))
    put_foreign(table, 3, a_foreign_file(table, 21))
    place = place_of(table) / commit_key(3)
    place.write_bytes(place.read_bytes() + json.dumps(odd).encode() + b"\n")
    with suppress(BadArgumentError):  # SQLite holds all of them
        recover(catalog_uri)
    with deltasql.connect(catalog_uri) as reopened:
        expected = 3 if "sqlite" in catalog_uri else 2
        assert reopened.table("orders").version == expected
