"""A foreign commit that cannot be committed again is named, and nothing at all is changed."""

import json
from dataclasses import replace

import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add, rows
from contests import BLIND, check_settled, commit_unseen, contest, refused, state_of
from deltasql.errors import LogGapError, MalformedActionError, TableStateError
from deltasql.maintenance.vacuum_store import VacuumBatch, VacuumStore
from deltasql.metastore.commit.encode import FoundCommit
from deltasql.metastore.commit.recommit import recommit_token
from deltasql.metastore.leases import Leases
from deltasql.protocol.actions import DomainMetadata, Metadata, Protocol, Txn, UnknownAction
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from foreign import a_foreign_file, place_of, put_foreign

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


def live_add(table):
    file = table.snapshot().files(["path", "partition_values", "size"]).to_pylist()[0]
    values = json.loads(file["partition_values"])
    return an_add(file["path"], partition_values=values, size=file["size"])


def changed(struct, **changes):
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return type(struct)(**{**fields, **changes})


def test_what_a_commit_read_is_not_known_unless_it_says_that_it_read_nothing(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100))
    commit_unseen(table, 10)
    refused(
        catalog,
        table,
        r"Version 2 in the log of orders \(FOREIGN by mallory\) cannot be committed again: "
        r"against version 2 of SQL \(WRITE\): .* not recorded",
    )
    assert all(one.done for one in catalog.mirror.repair("orders", replace=True))
    check_settled(catalog, table)


def test_a_commit_that_removes_files_says_blind_in_vain(catalog, table):
    put_foreign(table, 2, a_remove(live_add(table)), **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "not recorded")


def test_both_removed_the_same_file(catalog, table):
    gone = a_remove(live_add(table), data_change=False)
    put_foreign(table, 2, gone, changed(a_foreign_file(table, 1), data_change=False))
    table.delete("day = 'a'")
    refused(catalog, table, "both removed the same file")


def test_a_file_that_sql_never_had_is_not_removed(catalog, table):
    gone = a_remove(an_add("never"), data_change=False)
    put_foreign(table, 2, gone, changed(a_foreign_file(table, 1), data_change=False))
    commit_unseen(table, 10)
    refused(catalog, table, "it removes never, which is not part of the table in SQL")


def test_a_file_that_is_live_in_sql_is_not_added_again(catalog, table):
    put_foreign(table, 2, live_add(table), **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "is part of the table in SQL already")


ACTIONS = {
    "metaData": lambda table: changed(table.snapshot().metadata, description="theirs"),
    "protocol": lambda table: table.snapshot().protocol,
    "domainMetadata": lambda table: DomainMetadata(domain="d", configuration="", removed=False),
    "later": lambda table: UnknownAction(kind="later", body={"a": 1}),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_commit_that_changes_more_than_files(catalog, table, kind):
    action = ACTIONS[kind](table)
    assert isinstance(action, Metadata | Protocol | DomainMetadata | UnknownAction)
    put_foreign(table, 2, a_foreign_file(table, 100), action, **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, f"it holds an action {kind}")


def test_a_change_of_the_metadata_in_sql(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100), **BLIND)
    table.alter(properties={"k": "v"})
    refused(catalog, table, "changed the table's metadata")


def test_an_application_that_wrote_on_both_sides(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100), Txn(app_id="app", version=7), **BLIND)
    table.append(rows(10), txn=("app", 7))
    refused(catalog, table, r"same application \(app\)|application app has already written")


def test_an_application_that_went_back(catalog, table):
    table.append(rows(2), txn=("app", 7))
    put_foreign(table, 3, a_foreign_file(table, 100), Txn(app_id="app", version=6), **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "application app has already written 7; 6 is not newer")


def test_an_application_that_wrote_a_number_twice(catalog, table):
    for version in (2, 3):
        file = a_foreign_file(table, 100 + version)
        put_foreign(table, version, file, Txn(app_id="app", version=6), **BLIND)
    commit_unseen(table, 10)
    before = table.history()
    with pytest.raises(deltasql.errors.RecommitError, match=r"Version 3 .* already written 6"):
        catalog.mirror.repair("orders", recommit=True)
    assert table.history() == before
    assert table.state == "conflict"


def test_a_file_that_both_added(catalog, table):
    theirs = a_foreign_file(table, 100)
    put_foreign(table, 2, theirs, **BLIND)
    table.commit([theirs])
    refused(catalog, table, "both wrote the same file")


def test_a_file_that_sql_has_added_and_removed_does_not_come_back(catalog, table):
    theirs = a_foreign_file(table, 100)
    put_foreign(table, 2, theirs, **BLIND)
    inspect(table).connection.settings = NO_MIRROR
    table.commit([theirs])
    table.commit([a_remove(theirs)])
    refused(catalog, table, "both wrote the same file")


def test_one_of_many_holds_them_all(catalog, table):
    contest(table, theirs=(100, 101))
    put_foreign(table, 4, a_foreign_file(table, 102))
    refused(catalog, table, "Version 4 in the log of orders")


def test_a_commit_that_sql_has_too_is_not_doubled(catalog, table):
    """As after a restored database: the client has sent the same commit again."""
    put_foreign(table, 2, a_foreign_file(table, 100), txn_id="own-10", **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "it is the commit that SQL has as version 2")


def test_a_commit_of_ours_under_another_number_is_not_doubled(catalog, table):
    commit_unseen(table, 10, 11)
    log = place_of(table)
    (log / commit_key(2)).write_bytes((log / commit_key(3)).read_bytes())
    refused(catalog, table, "it is the commit that SQL has as version 3")
    assert table.state == "active"


def test_the_first_version(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    first = table.snapshot()
    put_foreign(table, 0, first.protocol, changed(first.metadata, description="theirs"))
    refused(catalog, table, "it holds an action")


def test_a_file_that_is_not_there(catalog, table):
    contest(table)
    file = place_of(table) / "day=a/foreign-100.parquet"
    content = file.read_bytes()
    file.unlink()
    refused(catalog, table, r"its file day=a/foreign-100\.parquet is not there")
    file.write_bytes(content + b"more")
    refused(catalog, table, f"has {len(content) + 4} bytes, and the commit says {len(content)}")
    file.write_bytes(content)
    catalog.mirror.repair("orders", recommit=True)
    check_settled(catalog, table)


@pytest.mark.parametrize("path", ["../other.parquet", "/elsewhere/other.parquet", "s3://b/o"])
def test_a_file_outside_the_table(catalog, table, path):
    put_foreign(table, 2, changed(a_foreign_file(table, 100), path=path), **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "outside the table|absolute path")


def test_row_ids_of_others(catalog, table):
    put_foreign(table, 2, changed(a_foreign_file(table, 100), base_row_id=0), **BLIND)
    commit_unseen(table, 10)
    refused(catalog, table, "brings row ids")


def test_what_the_tables_rules_forbid(catalog, tmp_path):
    table = a_table(catalog, tmp_path, properties={"delta.appendOnly": "true"})
    table.append(rows(1))
    put_foreign(table, 2, a_remove(live_add(table)))
    inspect(table).connection.settings = NO_MIRROR
    table.commit([], txn=("app", 1))
    refused(catalog, table, "append-only")


def test_a_file_that_vacuum_is_deleting(catalog, table):
    """Marked while nobody had noticed the foreign commit."""
    table.append(rows(2))
    put_foreign(table, 1, a_foreign_file(table, 100), **BLIND)
    metastore, row = inspect(catalog).metastore, table.refresh()
    leases = Leases(metastore.database, "vacuum")
    vacuum = VacuumStore(metastore.database, leases, metastore.identity.epoch)
    horizon = vacuum.horizon(row, cutoff=0, orphans_before=2**60)
    batch = VacuumBatch(frozenset({"day=a/foreign-100.parquet"}))
    assert vacuum.mark(leases.acquire(row.table_id, "vacuum"), row, horizon, batch)
    refused(catalog, table, "being deleted by vacuum")


def test_versions_that_sql_has_forgotten(catalog, table):
    """Nobody can tell any more what the commit contradicts."""
    contest(table, ours=(10, 11))
    found = FoundCommit.read(2, (place_of(table) / commit_key(2)).read_bytes())
    row = replace(table.refresh(), history_floor=3)
    (one,) = inspect(catalog).metastore.recommitter().plan(row, [found]).commits
    assert one.obstacle == "SQL has forgotten what came before version 3"


def test_a_log_with_a_gap(catalog, table):
    contest(table)
    put_foreign(table, 4)
    before = state_of(table)
    with pytest.raises(LogGapError, match="lacks version 3 and holds version 4"):
        catalog.mirror.repair("orders", recommit=True)
    plan = catalog.mirror.repair("orders", recommit=True, dry_run=True)
    assert [(one.done, "lacks version 3" in one.what) for one in plan] == [(False, True)] * 2
    assert state_of(table) == before


def test_a_commit_that_cannot_be_read(catalog, table):
    contest(table)
    (place_of(table) / commit_key(2)).write_bytes(b'{"add":{"path":1}}\n')
    before = state_of(table)
    with pytest.raises(MalformedActionError, match="line 1"):
        catalog.mirror.repair("orders", recommit=True)
    (plan,) = catalog.mirror.repair("orders", dry_run=True)
    assert "recommit: cannot be committed again" in plan.what
    assert state_of(table) == before


def test_a_conflict_that_was_settled_meanwhile(catalog, table):
    found = FoundCommit.read(2, contest(table)[2])
    catalog.mirror.repair("orders", replace=True)
    with pytest.raises(TableStateError, match="settled meanwhile"):
        inspect(catalog).metastore.recommitter().commit(table.table_id, [found])
    assert table.version == 2
    assert inspect(catalog).metastore.version_of(table.table_id, recommit_token(found)) is None
