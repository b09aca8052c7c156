"""What cannot move above a foreign commit is named, and nothing at all is changed."""

import json

import pytest

import deltasql
from builders import NO_MIRROR, a_remove, a_table, an_add, rows, some
from contests import check_settled, contest, refused, state_of
from deltasql.errors import BadArgumentError, LogGapError, MalformedActionError, OwnershipError
from deltasql.protocol.actions import Metadata, Txn
from deltasql.protocol.files import commit_key
from foreign import a_foreign_file, place_of, put_foreign


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
    path, values = next(
        zip(*table.snapshot().files(["path", "partition_values"]).to_pydict().values(), strict=True)
    )
    return an_add(path, partition_values=json.loads(values))


def test_a_delete_of_ours_cannot_move_for_nobody_knows_what_it_read(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100, day="z"))
    table.delete("day = 'a'")
    assert table.state == "conflict"
    refused(
        catalog, table, r"2 of orders \(DELETE by ada\) cannot become version 3: .* not recorded"
    )
    assert all(one.done for one in some(catalog.mirror.repair("orders", replace=True)))
    check_settled(catalog, table)


def test_both_removed_the_same_file(catalog, table):
    put_foreign(table, 2, a_remove(live_add(table)))
    table.delete("day = 'a'")
    refused(catalog, table, "both removed the same file")


def test_a_foreign_change_of_the_metadata_holds_every_commit_of_ours(catalog, table):
    metadata = table.snapshot().metadata
    put_foreign(table, 2, Metadata(**{**_fields(metadata), "description": "theirs"}))
    table.append(rows(10))
    refused(catalog, table, "changed the table's metadata")


def _fields(struct) -> dict:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_an_application_that_wrote_on_both_sides(catalog, table):
    put_foreign(table, 2, Txn(app_id="app", version=7))
    table.append(rows(10), txn=("app", 7))
    refused(catalog, table, "same application")


def test_a_file_that_both_added(catalog, table):
    put_foreign(table, 2, an_add("same.parquet"))
    table.commit([an_add("same.parquet")])
    refused(catalog, table, "both wrote the same file")


def test_a_file_that_they_removed_does_not_come_back_by_our_add(catalog, table):
    put_foreign(table, 2, a_remove(an_add("same.parquet")))
    table.commit([an_add("same.parquet")])
    refused(catalog, table, "removed same.parquet")


def test_one_of_many_that_cannot_move_holds_them_all(catalog, table):
    put_foreign(table, 2, a_foreign_file(table, 100))
    table._session.settings = NO_MIRROR
    table.append(rows(10))
    table.delete("day = 'a'")
    table.append(rows(11))
    refused(catalog, table, r"Version 3 of orders \(DELETE by ada\) cannot become version 4")


def test_a_commit_of_ours_that_is_in_the_log_under_another_number_is_not_doubled(catalog, table):
    """As after a restored database: the client sent the same commit again."""
    put_foreign(table, 2, a_foreign_file(table, 100), txn_id="own-10")
    table.append(rows(10), commit_id="own-10")
    refused(catalog, table, "version 2 of the log is the commit that SQL has as 2")


def test_the_first_version_has_no_place_above(catalog, tmp_path):
    table = a_table(catalog, tmp_path)
    (place_of(table) / commit_key(0)).write_bytes(put_foreign(table, 0))
    refused(catalog, table, "oldest version")


def test_a_log_with_a_gap_is_not_adopted(catalog, table):
    put_foreign(table, 4)
    contest(table)
    before = state_of(catalog, table)
    with pytest.raises(LogGapError, match="lacks version 3 and holds version 4"):
        catalog.mirror.repair("orders", adopt=True)
    assert state_of(catalog, table) == before


def test_a_foreign_commit_that_cannot_be_read_changes_nothing(catalog, table):
    contest(table)
    (place_of(table) / commit_key(2)).write_bytes(b'{"add":{"path":1}}\n')
    before = state_of(catalog, table)
    with pytest.raises(MalformedActionError, match="line 1"):
        catalog.mirror.repair("orders", adopt=True)
    assert "is no commit" in catalog.mirror.verify("orders")[0].detail
    assert state_of(catalog, table) == before


def test_a_log_of_another_owner_is_not_adopted(catalog, table):
    contest(table)
    marker = place_of(table) / "_delta_log" / "_deltasql"
    told = json.loads(marker.read_text())
    marker.write_text(json.dumps({**told, "epoch": told["epoch"] + 1}))
    before = state_of(catalog, table)
    with pytest.raises(OwnershipError):
        catalog.mirror.repair("orders", adopt=True)
    assert state_of(catalog, table) == before


def test_one_word_at_a_time(catalog, table):
    contest(table)
    with pytest.raises(BadArgumentError, match="not both"):
        catalog.mirror.repair("orders", adopt=True, replace=True)
    with pytest.raises(BadArgumentError, match="together"):
        catalog.mirror.repair("orders", adopt=True, version=2)


def test_a_replaced_version_below_commits_of_ours_in_the_log_is_not_adopted(catalog, table):
    """Those stand on what is gone; moved or not, the log would tell another history."""
    table.append(rows(2), commit_id="second")
    put_foreign(table, 1, a_foreign_file(table, 100))
    refused(catalog, table, "version 2 of the log is the commit that SQL has as 2")
    assert table.state == "active"
