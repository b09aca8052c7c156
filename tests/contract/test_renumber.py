"""`mirror repair --adopt` where SQL and the log both have a number: both commits stay, in order."""

import json

import pytest

import deltasql
from builders import NO_MIRROR, a_table, an_add, ids, rows, some
from contests import check_settled, contest
from deltasql.catalog import payloads
from deltasql.parity.log import Difference
from deltasql.protocol.actions import Txn
from deltasql.protocol.codec import decode_commit, digest, serialize_actions
from deltasql.protocol.files import commit_key
from deltasql.protocol.schema import Primitive, StructField
from deltasql.testing.invariants import check_invariants
from foreign import a_foreign_file, place_of, put_foreign
from readers import READERS, read_deltasql


@pytest.fixture
def catalog(catalog_uri):
    with deltasql.connect(catalog_uri, committer="ada") as opened:
        yield opened


@pytest.fixture
def table(catalog, tmp_path):
    made = a_table(catalog, tmp_path)
    made.append(rows(1))
    return made


@pytest.mark.req("R87")
def test_the_foreign_commit_keeps_its_number_and_ours_moves_above_it(catalog, table):
    (old,), foreign = contest(table)
    before = table.history(1)[0]
    done = catalog.mirror.repair("orders", adopt=True)
    assert [(one.finding.difference, one.finding.version, one.done) for one in done] == [
        (Difference.FOREIGN_COMMIT, 2, True),
        (Difference.OWN_COMMIT, 2, True),
    ]
    assert (table.state, table.version, ids(table)) == ("active", 3, [1, 10, 100])
    book = catalog._session.book
    assert book.payload(table.table_id, 2) == foreign
    ours, theirs = table.history(2)
    assert (theirs.origin, theirs.operation, theirs.rebased_from) == ("adopted", "FOREIGN", None)
    assert (ours.origin, ours.rebased_from, ours.commit_id) == ("commit", old, "own-10")
    same = ("operation", "committer", "operation_params", "operation_metrics", "user_metadata")
    for name in (*same, "client", "adds", "bytes_added", "is_blind_append", "read_version"):
        assert getattr(ours, name) == getattr(before, name), name
    assert ours.committed_at > max(theirs.committed_at, before.committed_at)
    check_settled(catalog, table)


def test_the_moved_commit_tells_its_first_number_and_a_new_time(catalog, table):
    contest(table)
    before = table.history(1)[0]
    catalog.mirror.repair("orders", adopt=True)
    line = json.loads((place_of(table) / commit_key(3)).read_text().splitlines()[0])
    info = line["commitInfo"]
    assert info["deltasqlRebasedFrom"] == 2
    assert info["txnId"] == "own-10"
    assert info["inCommitTimestamp"] == info["timestamp"] > before.committed_at
    payload = catalog._session.book.payload(table.table_id, 3)
    assert serialize_actions(decode_commit(payload, version=3)) == payload


@pytest.mark.req("R87")
def test_what_was_acknowledged_stays_findable_under_its_old_number(catalog, table):
    contest(table, ours=(10, 11))
    book = catalog._session.book
    old = {version: book.payload(table.table_id, version) for version in (2, 3)}
    catalog.mirror.repair("orders", adopt=True)
    kept = table.rebased_commits()
    assert [(one.old_version, one.new_version, one.commit_id) for one in kept] == [
        (2, 3, "own-10"),
        (3, 4, "own-11"),
    ]
    for one in kept:
        assert book.rebased_payload(table.table_id, one) == old[one.old_version]
        assert one.digest == digest(old[one.old_version])
    assert table.detail()["renumberings"] == 1


def test_the_bytes_of_a_large_commit_are_kept_too(catalog, table, monkeypatch):
    monkeypatch.setattr(payloads, "CHUNK_BYTES", 1000)
    put_foreign(table, 2, a_foreign_file(table, 100))
    many = [an_add(f"{digest(str(n).encode())}.parquet") for n in range(80)]
    assert table.commit(many, commit_id="large") == 2
    book = catalog._session.book
    old = book.payload(table.table_id, 2)
    catalog.mirror.repair("orders", adopt=True)
    (kept,) = table.rebased_commits()
    assert book.rebased_payload(table.table_id, kept) == old
    assert len(decode_commit(book.payload(table.table_id, 3), version=3)) == 81
    check_invariants(catalog, "orders")


def test_a_retry_with_the_same_token_returns_the_new_version_once(catalog, table, catalog_uri):
    contest(table)
    catalog.mirror.repair("orders", adopt=True)
    assert table.append(rows(10), commit_id="own-10") == 3
    with deltasql.connect(catalog_uri) as other:
        with other.transaction(commit_id="own-10") as tx:
            tx.table("orders").append(rows(10))
        assert tx.versions == {"orders": 3}
    assert table.version == 3
    check_settled(catalog, table)


def test_many_foreign_commits_and_many_of_ours(catalog, table):
    put_foreign(table, 3, a_foreign_file(table, 101), Txn(app_id="theirs", version=4))
    put_foreign(table, 4, a_foreign_file(table, 102, day="c"))
    contest(table, ours=(10, 11, 12, 13, 14))
    catalog.mirror.repair("orders", adopt=True)
    assert table.version == 9
    assert ids(table) == [1, 10, 11, 12, 13, 14, 100, 101, 102]
    assert catalog._session.book.txn_version(table.table_id, "theirs") == 4
    assert table.append(rows(20), txn=("theirs", 4)) == 3  # the version that holds it
    assert table.append(rows(20)) == 10
    check_settled(catalog, table)


@pytest.mark.parametrize("reader", list(READERS))
def test_other_readers_see_what_sql_has_afterwards(catalog, table, reader):
    contest(table)
    catalog.mirror.repair("orders", adopt=True)
    assert READERS[reader](str(place_of(table))) == read_deltasql(table)


def test_a_later_contest_moves_the_same_commit_again(catalog, table):
    contest(table)
    catalog.mirror.repair("orders", adopt=True)
    put_foreign(table, 4, a_foreign_file(table, 103))
    assert table.append(rows(11), commit_id="own-11") == 4
    catalog.mirror.repair("orders", adopt=True)
    assert table.append(rows(12)) == 6
    kept = [(one.renumbering, one.old_version, one.new_version) for one in table.rebased_commits()]
    assert kept == [(1, 2, 3), (2, 4, 5)]
    check_settled(catalog, table)


def test_a_compaction_of_ours_moves_over_a_foreign_append(catalog, table):
    table.append(rows(2))
    put_foreign(table, 3, a_foreign_file(table, 100))
    assert table.compact() == 3
    catalog.mirror.repair("orders", adopt=True)
    assert (table.version, ids(table)) == (4, [1, 2, 100])
    check_settled(catalog, table)


def test_changes_of_rules_move_over_a_commit_without_files(catalog, table):
    """Then the schema, the index, the domains and the settings stand at their new numbers."""
    put_foreign(table, 2, Txn(app_id="theirs", version=1))
    table._session.settings = NO_MIRROR
    table.alter(properties={"deltasql.mirror.mode": "worker", "k": "v"})
    table.alter(add=[StructField("more", Primitive("long"))])
    table.append(rows(5).append_column("more", [[7]]))
    row = table.refresh()
    assert (row.metadata_version, row.current_version) == (3, 4)
    catalog.mirror.repair("orders", adopt=True)
    row = table.refresh()
    assert (row.metadata_version, row.current_version) == (4, 5)
    assert row.properties["deltasql.mirror.mode"] == "worker"
    assert "more" not in [f.name for f in table.snapshot(version=3).schema.fields]
    assert "more" in [f.name for f in table.snapshot(version=4).schema.fields]
    assert table.snapshot(where="id = 5").files().num_rows == 1
    check_settled(catalog, table)


def test_a_transaction_over_two_tables_stays_one_under_two_numbers(catalog, table, tmp_path):
    other = a_table(catalog, tmp_path, "totals")
    put_foreign(table, 2, a_foreign_file(table, 100))
    with catalog.transaction(commit_id="both") as tx:
        tx.table("orders").append(rows(10))
        tx.table("totals").append(rows(11))
    catalog.mirror.repair("orders", adopt=True)
    assert (table.version, other.version) == (3, 1)
    (here,), (there,) = table.history(1), other.history(1)
    assert here.transaction_id == there.transaction_id == "both"
    assert table.rebased_commits()[0].transaction_id == "both"
    check_settled(catalog, table)


def test_pruning_finds_the_files_of_both_sides(catalog, table):
    contest(table, ours=(10, 11))
    catalog.mirror.repair("orders", adopt=True)
    for number in (1, 10, 11, 100):
        assert table.scan(columns=["id"], where=f"id = {number}").to_arrow().num_rows == 1
        assert table.snapshot(where=f"id = {number}").files().num_rows == 1
    assert table.snapshot(where="day = 'a'").files().num_rows == 4


def test_foreign_times_from_the_future_keep_the_order(catalog, table):
    ahead = table.history(1)[0].committed_at + 10**9
    put_foreign(table, 2, a_foreign_file(table, 100), timestamp=ahead, in_commit_timestamp=ahead)
    table.append(rows(10))
    catalog.mirror.repair("orders", adopt=True)
    assert table.history(1)[0].committed_at == ahead + 1
    assert table.snapshot(timestamp=ahead).version == 2
    check_settled(catalog, table)


def test_the_newest_mirrored_version_was_replaced(catalog, table):
    """The table took commits all the time: nobody had noticed."""
    put_foreign(table, 1, a_foreign_file(table, 100))
    assert [str(f.difference) for f in catalog.mirror.verify("orders")] == ["changed_commit"]
    assert table.state == "active"
    done = catalog.mirror.repair("orders", adopt=True)
    assert all(one.done for one in some(done))
    assert (table.version, ids(table), table.state) == (2, [1, 100], "active")
    check_settled(catalog, table)


def test_checkpoints_of_the_old_numbers_are_written_again(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    for number in range(4):
        table.append(rows(number))
    catalog.mirror.checkpoint("orders", 4)
    put_foreign(table, 4, a_foreign_file(table, 100))
    done = catalog.mirror.repair("orders", adopt=True)
    assert all(one.done for one in some(done))
    assert ids(table) == [0, 1, 2, 3, 100]
    check_settled(catalog, table)
