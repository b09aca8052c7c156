"""`mirror repair --replace` on contested numbers: SQL's stay, the foreign bytes are kept aside."""

import json

import pytest

import deltasql
from builders import a_table, ids, rows
from contests import BLIND, check_settled, commit_unseen, contest, log_files, saved, state_of
from deltasql.errors import (
    BadArgumentError,
    LeaseLostError,
    MirrorConflictError,
    MirrorError,
    OwnershipError,
    TableStateError,
)
from deltasql.maintenance.settlement import SAVED
from deltasql.mirror.compare import Difference
from deltasql.protocol.codec import digest
from deltasql.protocol.log_names import checkpoint_path, commit_key, commit_name
from deltasql.testing import inspect
from deltasql.testing.crash_points import hooked
from foreign import a_foreign_file, place_of, put_foreign
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


def test_no_acknowledged_version_changes_its_number_or_its_bytes(catalog, table):
    foreign = contest(table, ours=(10, 11), theirs=(100, 101))
    book = inspect(catalog).metastore
    before = {version: book.payload(table.table_id, version) for version in range(4)}
    done = catalog.mirror.repair("orders", replace=True)
    assert [(one.finding.version, one.done) for one in done] == [(2, True), (3, True)]
    assert {v: book.payload(table.table_id, v) for v in range(4)} == before
    assert (table.version, ids(table)) == (3, [1, 10, 11])
    assert saved(table) == {commit_name(v): payload for v, payload in foreign.items()}
    check_settled(catalog, table, acknowledged={"own-10": 2, "own-11": 3})
    assert table.append(rows(12)) == 4


def test_what_was_built_on_a_replaced_commit_is_taken_away_and_kept(catalog, table):
    """Left there, it would become the version of a history that its writer never saw."""
    foreign = contest(table, ours=(10, 11), theirs=(100, 101, 102, 103))
    kinds = [one.difference for one in catalog.mirror.verify("orders")]
    assert kinds == [Difference.COMMIT_CONFLICT] * 2 + [Difference.COMMIT_NOT_IN_CATALOG] * 2
    done = catalog.mirror.repair("orders", replace=True)
    assert [one.done for one in done] == [True] * 4
    assert ["taken away" in one.what for one in done] == [False, False, True, True]
    assert saved(table) == {commit_name(v): payload for v, payload in foreign.items()}
    assert (table.version, ids(table)) == (3, [1, 10, 11])
    check_settled(catalog, table)


def test_at_each_moment_a_reader_sees_the_history_of_one_side(catalog, table):
    contest(table, ours=(10, 11, 12), theirs=(100, 101, 102, 103))
    seen = []

    def look(point):
        if point in {"foreign-kept-aside", "foreign-taken-away", "foreign-replaced", "after-put"}:
            seen.append([row["id"] for row in READERS["deltalake"](str(place_of(table)))])

    with hooked(look):
        catalog.mirror.repair("orders", replace=True)
    theirs = [[1, 100, 101, 102, 103][:count] for count in (5, 4, 3, 2)]
    ours = [[1, 10], [1, 10, 11], [1, 10, 11, 12]]
    assert [one for n, one in enumerate(seen) if n == 0 or one != seen[n - 1]] == theirs + ours


@pytest.mark.parametrize("reader", list(READERS))
def test_other_readers_see_the_rows_of_sql(catalog, table, reader):
    contest(table, theirs=(100, 101))
    catalog.mirror.repair("orders", replace=True)
    assert READERS[reader](str(place_of(table))) == read_deltasql(table)


def test_checkpoints_and_checksums_of_the_foreign_history_go_with_it(catalog, table):
    """A reader would start from them and never look at the commits below."""
    foreign = contest(table, theirs=(100, 101, 102))
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(place_of(table))).create_checkpoint()
    checksum = place_of(table) / "_delta_log" / f"{3:020d}.crc"
    checksum.write_text("{}")
    hadoops = place_of(table) / "_delta_log" / f".{commit_name(2)}.crc"
    hadoops.write_bytes(b"crc")  # Hadoop would find the new commit damaged
    older = place_of(table) / "_delta_log" / f"{1:020d}.crc"
    older.write_text("{}")
    assert (place_of(table) / checkpoint_path(4)).exists()
    catalog.mirror.repair("orders", replace=True)
    assert not (place_of(table) / checkpoint_path(4)).exists()
    assert not checksum.exists()
    assert not hadoops.exists()
    assert older.exists()  # it speaks of a version that both sides have
    names = {checksum.name, hadoops.name, f"{4:020d}.checkpoint.parquet"}
    assert set(saved(table)) == names | {commit_name(version) for version in foreign}
    older.unlink()
    check_settled(catalog, table)
    for reader in READERS.values():
        assert reader(str(place_of(table))) == read_deltasql(table)


def test_a_mirrored_version_that_was_replaced_below_commits_of_ours(catalog, table):
    table.append(rows(2))
    payload = put_foreign(table, 1, a_foreign_file(table, 100))
    assert table.state == "active"
    (done,) = catalog.mirror.repair("orders", replace=True)
    assert done.done
    assert saved(table) == {commit_name(1): payload}
    check_settled(catalog, table)


def test_mirrored_versions_at_the_end_that_were_replaced(catalog, table):
    table.append(rows(2))
    for version in (1, 2, 3):
        put_foreign(table, version, a_foreign_file(table, 100 + version))
    catalog.mirror.repair("orders", replace=True)
    assert (table.version, ids(table)) == (2, [1, 2])
    check_settled(catalog, table)


def test_a_log_with_a_gap_is_made_whole(catalog, table):
    contest(table, ours=(10, 11, 12), theirs=(100,))
    put_foreign(table, 4, a_foreign_file(table, 104))
    put_foreign(table, 7, a_foreign_file(table, 107))
    catalog.mirror.repair("orders", replace=True)
    assert set(saved(table)) == {commit_name(v) for v in (2, 4, 7)}
    check_settled(catalog, table)


def test_a_commit_that_nobody_understands_is_kept_and_replaced(catalog, table):
    contest(table)
    (place_of(table) / commit_key(2)).write_bytes(b"no commit")
    catalog.mirror.repair("orders", replace=True)
    assert saved(table) == {commit_name(2): b"no commit"}
    check_settled(catalog, table)


def test_kept_bytes_are_never_overwritten(catalog, table):
    foreign = contest(table)[2]
    name = f"{commit_name(2)}.{digest(foreign)[:12]}"
    place = place_of(table) / SAVED / name
    place.parent.mkdir()
    place.write_bytes(b"something else")
    log = log_files(table)
    with pytest.raises(MirrorError, match="does not hold the bytes"):
        catalog.mirror.repair("orders", replace=True)
    assert place.read_bytes() == b"something else"
    assert log_files(table) == log
    place.unlink()
    catalog.mirror.repair("orders", replace=True)
    check_settled(catalog, table)


def test_a_second_contest_of_the_same_number_keeps_both(catalog, table):
    one = contest(table)[2]
    catalog.mirror.repair("orders", replace=True)
    two = put_foreign(table, 2, a_foreign_file(table, 200))
    catalog.mirror.repair("orders", replace=True)
    kept = [file.read_bytes() for file in (place_of(table) / SAVED).iterdir()]
    assert sorted(kept) == sorted([one, two])
    check_settled(catalog, table)


def test_a_commit_that_changes_while_it_is_repaired_is_not_lost(catalog, table):
    contest(table)
    later = []

    def write(point):
        if point == "foreign-kept-aside" and not later:
            later.append(put_foreign(table, 2, a_foreign_file(table, 300)))

    with hooked(write), pytest.raises(MirrorConflictError, match="written again"):
        catalog.mirror.repair("orders", replace=True)
    assert log_files(table)[commit_name(2)] == later[0]
    assert table.state == "conflict"
    catalog.mirror.repair("orders", replace=True)
    assert later[0] in [file.read_bytes() for file in (place_of(table) / SAVED).iterdir()]
    check_settled(catalog, table)


@pytest.mark.parametrize("point", ["foreign-kept-aside", "foreign-taken-away"])
def test_a_foreign_writer_that_goes_on_meanwhile_is_noticed(catalog, table, point):
    """Its commit would lie above SQL's and pass for one that was built on them."""
    contest(table, ours=(10, 11), theirs=(100, 101))
    later = []

    def write(name):
        if name == point and not later:
            later.append(put_foreign(table, 4, a_foreign_file(table, 300)))

    with hooked(write), pytest.raises(MirrorConflictError, match="got version 4 while"):
        catalog.mirror.repair("orders", replace=True)
    assert later
    assert table.state == "conflict"
    assert Difference.COMMIT_CONFLICT in [one.difference for one in catalog.mirror.verify("orders")]
    catalog.mirror.repair("orders", replace=True)
    assert saved(table)[commit_name(4)] == later[0]
    assert (table.version, ids(table)) == (3, [1, 10, 11])
    check_settled(catalog, table)


def test_nobody_commits_and_nobody_else_repairs_meanwhile(catalog, table, catalog_uri):
    put_foreign(table, 1, a_foreign_file(table, 100))
    assert table.state == "active"  # nobody has noticed
    refusals = []

    def intrude(point):
        if point == "foreign-replaced":
            with deltasql.connect(catalog_uri) as other:
                with pytest.raises(TableStateError) as error:
                    other.table("orders").append(rows(9))
                refusals.append(error.value)
                put_foreign(table, 2)
                with pytest.raises(LeaseLostError, match="is repairing the log of orders") as error:
                    put_foreign(table, 1)
                    other.mirror.repair("orders", replace=True)
                refusals.append(error.value)
                (place_of(table) / commit_key(2)).unlink()
                stored = inspect(other).metastore.payload(table.table_id, 1)
                (place_of(table) / commit_key(1)).write_bytes(stored)

    with hooked(intrude):
        catalog.mirror.repair("orders", replace=True)
    assert len(refusals) == 2
    check_settled(catalog, table)


def test_a_log_of_another_owner_is_left_alone(catalog, table):
    contest(table)
    marker = place_of(table) / "_delta_log" / "_deltasql"
    owner = json.loads(marker.read_text())
    marker.write_text(json.dumps({**owner, "epoch": owner["epoch"] + 1}))
    before = state_of(table)
    for way in ("replace", "recommit"):
        with pytest.raises(OwnershipError):
            catalog.mirror.repair("orders", **{way: True})
    assert state_of(table) == before


def test_the_plan_shows_both_ways_and_changes_nothing(catalog, table):
    contest(table, theirs=(100, 101))
    before = state_of(table)
    plan = catalog.mirror.repair("orders", dry_run=True)
    assert [one.done for one in plan] == [False, False]
    assert plan[0].what.startswith("replace: SQL's commit is put; recommit: becomes version 3 of")
    assert plan[1].what.startswith("replace: taken away; recommit: becomes version 4 of SQL")
    done = catalog.mirror.repair("orders")  # nobody has decided
    assert [(one.done, one.what) for one in done] == [(False, one.what) for one in plan]
    for way in ("replace", "recommit"):
        assert all(one.done for one in catalog.mirror.repair("orders", dry_run=True, **{way: True}))
    assert state_of(table) == before


def test_while_nobody_has_decided_nothing_is_put_above_a_foreign_commit(catalog, table):
    table.append(rows(2))
    put_foreign(table, 1, a_foreign_file(table, 100))
    (place_of(table) / commit_key(2)).unlink()
    assert [one.done for one in catalog.mirror.repair("orders")] == [False, False]
    assert not (place_of(table) / commit_key(2)).exists()
    catalog.mirror.repair("orders", replace=True)
    check_settled(catalog, table)


def test_contested_commits_are_not_adopted(catalog, table):
    contest(table, theirs=(100, 101))
    before = state_of(table)
    with pytest.raises(MirrorConflictError, match="Version 2 of orders is in SQL") as error:
        catalog.mirror.repair("orders", adopt=True)
    assert "`recommit=True`" in error.value.advice
    assert not any(one.done for one in catalog.mirror.repair("orders", adopt=True, dry_run=True))
    assert state_of(table) == before


def test_one_decision_for_the_whole_contest(catalog, table):
    contest(table)
    for ways in ({"replace", "adopt"}, {"replace", "recommit"}, {"recommit", "adopt"}):
        with pytest.raises(BadArgumentError, match="not both"):
            catalog.mirror.repair("orders", **dict.fromkeys(ways, True))
    for way in ("replace", "recommit", "adopt"):
        with pytest.raises(BadArgumentError, match="together"):
            catalog.mirror.repair("orders", version=2, **{way: True})


def test_above_sqls_newest_version_foreign_commits_are_adopted_as_before(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100), **BLIND)
    for way in ("replace", "recommit"):
        assert [one.done for one in catalog.mirror.repair("orders", **{way: True})] == [False]
    assert [one.done for one in catalog.mirror.repair("orders", adopt=True)] == [True]
    commit_unseen(table, 10)
    assert (table.version, ids(table)) == (3, [1, 10, 100])
    check_settled(catalog, table)
