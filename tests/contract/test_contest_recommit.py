"""`mirror repair --recommit`: foreign commits of contested numbers become new versions of SQL."""

import json
import os
from datetime import timedelta

import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, ids, rows
from contests import (
    BLIND,
    check_settled,
    commit_unseen,
    contest,
    saved,
    state_of,
    was_checked_before,
)
from deltasql.errors import CommitConflictError, MirrorConflictError, OwnershipError
from deltasql.protocol.actions import Add, Cdc, Txn
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.log_names import commit_key, commit_name
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, place_of, put_foreign
from foreign_tables import ForeignTable, a_field
from readers import READERS, read_deltasql

pytestmark = pytest.mark.req("R87")


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, committer="ada") as opened:
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    made.append(rows(1))
    return made


def recommit(catalog, table, **acknowledged: int):
    """Recommit; check first that the plan says what is then done."""
    plan = catalog.mirror.repair("orders", recommit=True, dry_run=True)
    done = catalog.mirror.repair("orders", recommit=True)
    assert done
    assert [(one.finding, one.done) for one in done] == [(one.finding, one.done) for one in plan]
    assert all(one.done for one in done)
    check_settled(catalog, table, acknowledged=acknowledged)
    return done


def test_the_foreign_commit_becomes_the_next_version_and_ours_stay(catalog, table):
    foreign = contest(table, ours=(10, 11))
    book = inspect(catalog).metastore
    before = {version: book.payload(table.table_id, version) for version in range(4)}
    history = table.history()
    (done,) = recommit(catalog, table, **{"own-10": 2, "own-11": 3})
    assert done.what.startswith("is version 4 of SQL")
    assert {v: book.payload(table.table_id, v) for v in range(4)} == before
    assert table.history()[1:] == history
    assert (table.version, ids(table)) == (4, [1, 10, 11, 100])
    assert saved(table) == {commit_name(2): foreign[2]}


def test_the_new_version_says_where_it_came_from(catalog, table):
    contest(table)
    before = table.history(1)[0]
    recommit(catalog, table)
    entry = table.history(1)[0]
    assert (entry.origin, entry.operation, entry.committer) == ("commit", "FOREIGN", "mallory")
    assert entry.committed_at > before.committed_at
    assert entry.is_blind_append
    line = json.loads((place_of(table) / commit_key(3)).read_text().splitlines()[0])
    info = line["commitInfo"]
    assert info["deltasqlRecommittedFrom"] == 2
    assert info["txnId"] == entry.commit_id
    assert info["inCommitTimestamp"] == info["timestamp"] == entry.committed_at
    payload = inspect(catalog).metastore.payload(table.table_id, 3)
    assert serialize_actions(decode_commit(payload, version=3)) == payload


def test_many_foreign_commits_become_one_version_each_in_order(catalog, table):
    contest(table, ours=(10, 11), theirs=(100, 101, 102, 103))
    recommit(catalog, table)
    assert table.version == 7
    assert [ids(table, version=version) for version in (3, 4, 5, 6, 7)] == [
        [1, 10, 11],
        [1, 10, 11, 100],
        [1, 10, 11, 100, 101],
        [1, 10, 11, 100, 101, 102],
        [1, 10, 11, 100, 101, 102, 103],
    ]
    assert table.append(rows(20)) == 8


@pytest.mark.parametrize("reader", list(READERS))
def test_other_readers_see_the_rows_of_both_sides(catalog, table, reader):
    contest(table, theirs=(100, 101))
    recommit(catalog, table)
    assert READERS[reader](str(place_of(table))) == read_deltasql(table)
    assert ids(table) == [1, 10, 100, 101]


def test_said_again_it_does_nothing(catalog, table):
    foreign = contest(table)
    recommit(catalog, table)
    assert catalog.mirror.repair("orders", recommit=True) == []
    # somebody puts the same bytes back: their rows are in the table already
    (place_of(table) / commit_key(2)).write_bytes(foreign[2])
    recommit(catalog, table)
    assert (table.version, ids(table)) == (3, [1, 10, 100])


class StopError(BaseException):
    """The repair ends here."""


def stop(point):
    if point == "after-recommit-commit":
        raise StopError


def test_bytes_that_change_after_the_sql_commit_are_not_replaced_unread(catalog, table):
    later = []

    def write(point):
        if point == "after-recommit-commit" and not later:
            later.append(put_foreign(table, 2, a_foreign_file(table, 300), **BLIND))

    contest(table)
    with hooked(write), pytest.raises(MirrorConflictError, match="written again"):
        catalog.mirror.repair("orders", recommit=True)
    assert (place_of(table) / commit_key(2)).read_bytes() == later[0]
    recommit(catalog, table)
    assert (table.version, ids(table)) == (4, [1, 10, 100, 300])


def test_after_a_recommit_that_ended_half_way_a_replace_loses_nothing(catalog, table):
    contest(table, theirs=(100, 101))
    with hooked(stop), pytest.raises(StopError):
        catalog.mirror.repair("orders", recommit=True)
    assert (table.version, table.state) == (4, "conflict")
    catalog.mirror.repair("orders", replace=True)
    assert ids(table) == [1, 10, 100, 101]
    check_settled(catalog, table)


def test_a_foreign_writer_that_goes_on_after_the_sql_commit(catalog, table):
    """What it builds on its own commits has seen them; what SQL has of them is no obstacle."""
    contest(table, theirs=(100,))
    with hooked(stop), pytest.raises(StopError):
        catalog.mirror.repair("orders", recommit=True)
    theirs = a_foreign_file(table, 100)
    merged = a_foreign_file(table, 100, 101)
    compaction = (
        a_remove(theirs, data_change=False),
        type(merged)(**{**_fields(merged), "data_change": False}),
    )
    put_foreign(table, 3, *compaction)
    recommit(catalog, table)
    assert (table.version, ids(table)) == (4, [1, 10, 100, 101])


def _fields(struct) -> dict:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_a_foreign_commit_may_remove_what_a_foreign_commit_before_it_added(catalog, table):
    first = a_foreign_file(table, 100)
    put_foreign(table, 2, first, **BLIND)
    second = a_foreign_file(table, 100, 101)
    moved = type(second)(**{**_fields(second), "data_change": False})
    put_foreign(table, 3, a_remove(first, data_change=False, deletion_timestamp=5), moved)
    commit_unseen(table, 10)
    recommit(catalog, table)
    assert (table.version, ids(table)) == (4, [1, 10, 100, 101])
    lines = (place_of(table) / commit_key(4)).read_text().splitlines()
    (remove,) = [json.loads(line)["remove"] for line in lines if "remove" in line]
    assert remove["deletionTimestamp"] == table.history(1)[0].committed_at


def test_a_compaction_of_files_that_sql_left_alone(catalog, table):
    (path,) = table.snapshot().files(["path"]).column("path").to_pylist()
    live = table.snapshot().files(["path", "size"]).to_pylist()[0]
    merged = a_foreign_file(table, 1)
    merged = type(merged)(**{**_fields(merged), "data_change": False})
    gone = a_remove(merged, path=path, size=live["size"], data_change=False)
    put_foreign(table, 2, gone, merged)
    commit_unseen(table, 10)
    recommit(catalog, table)
    assert (table.version, ids(table)) == (3, [1, 10])
    assert not table.history(1)[0].is_blind_append


def test_a_delete_over_commits_without_files(catalog, table):
    """Nothing that SQL committed could have been read by it."""
    live = table.snapshot().files(["path", "size"]).to_pylist()[0]
    gone = a_remove(a_foreign_file(table, 1), path=live["path"], size=live["size"])
    put_foreign(table, 2, gone)
    settings, inspect(table).connection.settings = inspect(table).settings, NO_MIRROR
    table.commit([], txn=("app", 1))
    inspect(table).connection.settings = settings
    inspect(catalog).engine.catch_up(table.table_id, seconds=60)
    recommit(catalog, table)
    assert (table.version, ids(table), ids(table, version=2)) == (3, [], [1])


def test_applications_go_on_where_the_foreign_commits_left_them(catalog, table):
    for version, number in ((2, 4), (3, 5)):
        file = a_foreign_file(table, 100 + version)
        put_foreign(table, version, file, Txn(app_id="theirs", version=number), **BLIND)
    commit_unseen(table, 10)
    recommit(catalog, table)
    assert inspect(catalog).metastore.txn_version(table.table_id, "theirs") == 5
    assert table.append(rows(20), txn=("theirs", 5)) == 4  # the version that holds it
    assert table.append(rows(20), txn=("theirs", 6)) == 5


def test_change_data_goes_with_its_commit(catalog, tmp_path):
    table = a_table(catalog, tmp_path, properties={"delta.enableChangeDataFeed": "true"})
    added = a_foreign_file(table, 100)
    cdc = Cdc(
        path=added.path, partition_values=added.partition_values, size=added.size, data_change=False
    )
    put_foreign(table, 1, added, cdc)
    settings, inspect(table).connection.settings = inspect(table).settings, NO_MIRROR
    table.commit([], txn=("app", 1))
    inspect(table).connection.settings = settings
    inspect(catalog).engine.catch_up(table.table_id, seconds=60)
    recommit(catalog, table)
    payload = inspect(catalog).metastore.payload(table.table_id, 2)
    assert [a.path for a in decode_commit(payload, version=2) if isinstance(a, Cdc)] == [cdc.path]


def test_a_mirrored_version_that_was_replaced_below_commits_of_ours(catalog, table):
    table.append(rows(2))
    put_foreign(table, 1, a_foreign_file(table, 100), **BLIND)
    assert table.state == "active"  # nobody has noticed
    recommit(catalog, table)
    assert (table.version, ids(table)) == (3, [1, 2, 100])


def test_pruning_finds_the_files_of_both_sides(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100, day="z"), **BLIND)
    commit_unseen(table, 10)
    recommit(catalog, table)
    for number in (1, 10, 100):
        assert table.snapshot(where=f"id = {number}").files().num_rows == 1
    assert table.snapshot(where="day = 'z'").files().num_rows == 1


def test_a_transaction_that_read_before_is_judged_like_any_other(catalog, table, catalog_uri):
    contest(table)
    with deltasql.connect(catalog_uri) as other:
        whole, part = other.transaction(), other.transaction()
        whole.table("orders").delete("day = 'a'")
        part.table("orders").delete("day = 'b'")
        recommit(catalog, table)
        with pytest.raises(CommitConflictError, match="version 3"):
            whole.commit()
        part.commit()
    assert ids(table) == [1, 10, 100]


def test_a_commit_of_many_files(catalog, table):
    files = [a_foreign_file(table, number, day=f"d{number}") for number in range(100, 170)]
    put_foreign(table, 2, *files, **BLIND)
    commit_unseen(table, 10)
    recommit(catalog, table)
    assert ids(table) == [1, 10, *range(100, 170)]
    before = state_of(table)
    assert catalog.mirror.repair("orders", recommit=True) == []
    assert state_of(table) == before


def test_row_ids_are_given_out_by_sql(catalog, tmp_path):
    made = ForeignTable(
        versions=(1, 7),
        fields=(a_field("id"), a_field("name", "string"), a_field("day", "string")),
        partition_by=("day",),
        writer_features=["appendOnly", "domainMetadata", "invariants", "rowTracking"],
        configuration={
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": "_row-id",
            "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
        },
    )
    catalog.import_table(str(made.write(tmp_path / "t", [])), name="orders", engine="local")
    catalog.cutover("orders")
    table = catalog.table("orders")
    first = table.version + 1
    put_foreign(table, first, a_foreign_file(table, 100), **BLIND)
    commit_unseen(table, 10, 11)
    assert table.state == "conflict"
    assert all(one.done for one in catalog.mirror.repair("orders", recommit=True))
    found = []
    for version in range(first, first + 3):
        payload = inspect(catalog).metastore.payload(table.table_id, version)
        adds = [a for a in decode_commit(payload, version=version) if isinstance(a, Add)]
        found += [(add.base_row_id, add.default_row_commit_version - first) for add in adds]
    assert found == [(0, 0), (1, 1), (2, 2)]
    assert ids(table) == [10, 11, 100]
    check_invariants(catalog, "orders")


def test_no_vacuum_deletes_the_files_of_a_foreign_commit_that_the_mirror_has_not_met(
    catalog, table
):
    """Only the foreign commit names its file: in SQL it looks like a leftover."""
    was_checked_before(table)
    put_foreign(table, 2, a_foreign_file(table, 100), **BLIND)
    for file in place_of(table).rglob("*.parquet"):
        os.utime(file, (1, 1))
    settings = inspect(table).settings
    inspect(table).connection.settings = NO_MIRROR
    assert table.append(rows(10)) == 2
    inspect(table).connection.settings = settings
    with pytest.raises(OwnershipError, match="is not the version that SQL has"):
        table.vacuum(dry_run=False, retain=timedelta(0), allow_short_retention=True, orphans=True)
    with pytest.raises(OwnershipError):
        catalog.drop("orders", purge=True, force=True)
    inspect(table).engine.catch_up(table.table_id, seconds=60)
    assert all(one.done for one in catalog.mirror.repair("orders", recommit=True))
    assert ids(table) == [1, 10, 100]
