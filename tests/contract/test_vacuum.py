"""Vacuum deletes what nothing needs, and nothing else; what it deletes is marked in SQL first."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from aging import START, Stage
from builders import SCHEMA, a_remove, a_table, an_add, ids, rows
from deltasql.errors import BadArgumentError, VacuumedError
from deltasql.protocol.actions import Cdc, DeletionVector, Protocol
from deltasql.testing.invariants import check_invariants

VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["deletionVectors"],
    writer_features=[
        "appendOnly",
        "deletionVectors",
        "deltasqlManaged",
        "inCommitTimestamp",
        "invariants",
    ],
)
# Two vectors that share the file `deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin`.
SHARED_CODE, SHARED_FILE = (
    "^-aqEH.-t@S}K{vb[*k^",
    "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
)


UUID = "0a1b2c3d-0a1b-4c3d-8a1b-0a1b2c3d4e50"


@pytest.fixture
def stage(catalog_uri, tmp_path):
    made = Stage(catalog_uri, tmp_path)
    yield made
    made.catalog.close()


@pytest.mark.req("R92")
def test_a_removed_file_goes_when_its_retention_is_over(stage):
    old, new = stage.add("old.parquet"), stage.add("new.parquet")
    stage.table.commit([old, new])
    stage.pass_days(1)
    stage.table.commit([a_remove(old)])
    stage.pass_days(6.9)
    assert stage.vacuum() == set()
    stage.pass_days(0.2)
    assert stage.vacuum() == {"old.parquet"}
    assert stage.files() == {"new.parquet"}
    check_invariants(stage.catalog, "orders")
    assert stage.vacuum() == set()


def test_it_only_tells_unless_told_otherwise(stage):
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    stage.put("leftover.parquet")
    stage.pass_days(8)
    report = stage.table.vacuum()
    assert {(one.key, one.is_orphan) for one in report} == {
        ("gone.parquet", False),
        ("leftover.parquet", True),
    }
    assert report.is_dry_run
    assert report.bytes == 101
    assert stage.files() == {"gone.parquet", "leftover.parquet"}


def test_a_retention_shorter_than_the_tables_own_is_refused(stage):
    with pytest.raises(BadArgumentError, match="keeps removed files for 7 days"):
        stage.table.vacuum(retain=timedelta(days=1))
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    stage.pass_days(2)
    short = {"retain": timedelta(days=1), "allow_short_retention": True}
    assert stage.vacuum(**short) == {"gone.parquet"}


def test_the_tables_own_property_is_its_retention(stage):
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.table.commit([a_remove(gone)])
    stage.table.alter(properties={"delta.deletedFileRetentionDuration": "interval 30 days"})
    stage.pass_days(29)
    assert stage.vacuum() == set()
    stage.pass_days(2)
    assert stage.vacuum() == {"gone.parquet"}


def test_a_version_whose_files_are_gone_can_be_neither_read_nor_restored(stage):
    stage.table.append(rows(1, 2))
    stage.pass_days(1)
    stage.table.overwrite(rows(3))
    stage.pass_days(9)
    assert len(stage.vacuum()) == 1
    assert ids(stage.table) == [3]
    with pytest.raises(VacuumedError, match="Version 1 of orders cannot be read any more"):
        stage.table.scan(version=1).to_arrow()
    with pytest.raises(VacuumedError, match="vacuum deleted 1 of its files"):
        stage.table.restore(version=1)
    assert stage.table.version == 2
    assert stage.table.snapshot(version=1).version == 1  # its metadata is still there


def test_a_restore_that_was_planned_before_is_refused(stage, monkeypatch):
    """The files are still there when the restore looks for them, and gone when it commits."""
    from deltasql.api.write import in_flight

    stage.table.append(rows(1))
    stage.table.overwrite(rows(2))
    stage.pass_days(8)
    look = in_flight.require_present

    def look_then_vacuum(actions, store):
        look(actions, store)
        assert len(stage.vacuum()) == 1

    monkeypatch.setattr(in_flight, "require_present", look_then_vacuum)
    with pytest.raises(VacuumedError):
        stage.table.restore(version=1)
    assert ids(stage.table) == [2]


def test_a_restored_file_is_live_again_and_stays(stage):
    stage.table.append(rows(1))
    stage.table.overwrite(rows(2))
    stage.pass_days(6)
    stage.table.restore(version=1)
    stage.pass_days(30)
    assert len(stage.vacuum()) == 1  # the file of the rows that the restore took away
    assert ids(stage.table) == [1]


def test_vectors_share_a_file_that_stays_as_long_as_one_of_them_does(stage):
    def vector(offset):
        return DeletionVector(
            storage_type="u",
            path_or_inline_dv=SHARED_CODE,
            offset=offset,
            size_in_bytes=8,
            cardinality=1,
        )

    stage.table.commit([VECTORS])
    one, two = stage.add("one.parquet"), stage.add("two.parquet")
    stage.table.commit([one, two])
    stage.put(SHARED_FILE)
    marked = [
        an_add(a.path, day=None, partition_values={}, deletion_vector=vector(n))
        for n, a in enumerate((one, two))
    ]
    stage.table.commit([*marked, a_remove(one), a_remove(two)])
    stage.table.commit([a_remove(marked[0])])
    stage.pass_days(30)
    assert stage.vacuum() == {"one.parquet"}  # two.parquet is live under its vector
    assert SHARED_FILE in stage.files()
    stage.table.commit([a_remove(marked[1])])
    stage.pass_days(30)
    assert stage.vacuum() == {"two.parquet", SHARED_FILE}
    assert stage.files() == set()


def test_what_the_log_still_shows_stays(catalog_uri, tmp_path):
    stage = Stage(catalog_uri, tmp_path)
    gone = stage.add("gone.parquet")
    stage.table.commit([gone])
    stage.catalog.mirror.pause("orders")
    stage.table.commit([a_remove(gone)])
    stage.pass_days(30)
    assert stage.vacuum() == set()
    stage.catalog.mirror.resume("orders")
    stage.catalog.mirror.run_once()
    assert stage.vacuum() == {"gone.parquet"}
    stage.catalog.close()


def test_leftovers_go_and_everything_that_is_not_data_stays(stage):
    kept = {
        "_hidden/x.parquet",
        ".tmp.parquet",
        "part/_temporary/y.parquet",
        "nested/_delta_log/0.json",
        "nested/data.parquet",
    }
    for name in kept:
        stage.put(name)
    stage.put("a/b/left.parquet")
    stage.put("left over%20é.parquet")
    stage.pass_days(8)
    stage.put("young.parquet")
    found = stage.vacuum()
    assert found == {"a/b/left.parquet", "left over%20é.parquet"}
    assert kept - {"nested/_delta_log/0.json"} <= stage.files()
    assert "young.parquet" in stage.files()


def test_what_a_dead_transaction_of_spark_has_written_goes(stage):
    """Its log is no table's; what such a transaction has committed stays."""
    folder = f"tx-{'0a' * 16}"
    stage.table.commit([stage.add(f"{folder}/kept.parquet")])
    stage.put(f"{folder}/left.parquet")
    stage.put(f"{folder}/_delta_log/0.json")
    stage.put("tx-mine/_delta_log/0.json")
    stage.put("tx-mine/data.parquet")
    stage.pass_days(8)
    assert stage.vacuum() == {f"{folder}/left.parquet", f"{folder}/_delta_log/0.json"}
    check_invariants(stage.catalog, "orders")


def test_what_spark_hides_in_our_own_folders_goes(stage):
    """Checksums stay with their files; the same names elsewhere are none of our affair."""
    dead, live = f"w-{UUID}", f"w-{UUID[:-1]}f"
    stage.table.commit([stage.add(f"{live}/day=a/kept.parquet")])
    stage.put(f"{live}/day=a/.kept.parquet.crc")
    spared = {
        "w-mine/_temporary/0/x.parquet",
        "w-mine/.x.crc",
        ".x.parquet.crc",
        f"deeper/{dead}/.x.crc",
    }
    gone = {
        f"{live}/_temporary/0/task/late.parquet",
        f"{dead}/_temporary/0/task/.part.parquet.crc",
        f"{dead}/._SUCCESS.crc",
        f"{dead}/.left.parquet.crc",
        f"{dead}/left.parquet",
    }
    for name in spared | gone:
        stage.put(name)
    assert stage.vacuum() == set()
    stage.pass_days(8)
    stage.put(f"{dead}/_temporary/young.parquet")
    assert stage.vacuum() == gone
    assert spared <= stage.files()
    check_invariants(stage.catalog, "orders")


def test_a_checksum_goes_with_its_file(stage):
    file = stage.add(f"w-{UUID}/old.parquet")
    stage.table.commit([file])
    stage.put(f"w-{UUID}/.old.parquet.crc")
    stage.table.commit([a_remove(file)])
    stage.pass_days(6)
    assert stage.vacuum() == set()
    stage.pass_days(2)
    assert stage.vacuum() == {f"w-{UUID}/old.parquet", f"w-{UUID}/.old.parquet.crc"}


def test_change_data_of_a_transaction_of_spark_stays_as_long_as_its_version(stage):
    folder = f"tx-{'0b' * 16}/_change_data"
    values = {"partition_values": {}, "size": 1, "data_change": False}
    cdc = Cdc(path=f"{folder}/named.parquet", **values)
    stage.put(f"{folder}/named.parquet")
    stage.put(f"{folder}/left.parquet")
    stage.pass_days(8)
    stage.table.commit([stage.add("data.parquet"), cdc])
    assert stage.vacuum() == {f"{folder}/left.parquet"}
    stage.table.commit([stage.add("more.parquet")])
    stage.pass_days(8)
    assert stage.vacuum() == {f"{folder}/named.parquet"}


def test_leftovers_are_left_alone_on_request(stage):
    stage.put("left.parquet")
    stage.pass_days(30)
    assert stage.vacuum(orphans=False) == set()


def test_an_orphan_is_never_younger_than_an_hour(stage):
    none = {"retain": timedelta(0), "allow_short_retention": True}
    stage.put("young.parquet", age_days=0.9 / 24)
    stage.put("old.parquet", age_days=1.1 / 24)
    assert stage.vacuum(**none) == {"old.parquet"}


def test_a_partition_folder_that_looks_hidden_is_data(stage):
    table = stage.catalog.create_table(
        "hidden", location=str(stage.tmp_path / "hidden"), schema=SCHEMA, partition_by=["day"]
    )
    folder = Path(table.location.removeprefix("file://")) / "day=1"
    folder.mkdir(parents=True)
    (folder / "left.parquet").write_bytes(b"x")
    os.utime(folder / "left.parquet", (START / 1000, START / 1000))
    stage.pass_days(30)
    assert {one.key for one in table.vacuum()} == {"day=1/left.parquet"}


def test_the_same_object_by_another_spelling_of_its_path_stays(stage):
    """`a%20b` and `a b` are two files for the log and one object for the store."""
    stage.put("a b.parquet")
    first = an_add("a%20b.parquet", day=None, partition_values={})
    second = an_add("a b.parquet", day=None, partition_values={})
    third = an_add(f"{stage.place.as_uri()}/a%20b.parquet", day=None, partition_values={})
    stage.table.commit([first, second, third])
    stage.table.commit([a_remove(first)])
    stage.pass_days(30)
    assert stage.vacuum() == set()
    stage.table.commit([a_remove(second)])
    stage.pass_days(30)
    assert stage.vacuum() == set()
    stage.table.commit([a_remove(third)])
    stage.pass_days(30)
    assert stage.vacuum() == {"a b.parquet"}


def test_what_a_shallow_clone_refers_to_stays(stage):
    shared = stage.add("shared.parquet")
    stage.table.commit([shared])
    clone = a_table(stage.catalog, stage.tmp_path, "clone", partition_by=[])
    path = (stage.place / "shared.parquet").as_uri()
    theirs = an_add(path, day=None, partition_values={})
    clone.commit([theirs])
    stage.table.commit([a_remove(shared)])
    stage.pass_days(30)
    assert stage.vacuum() == set()
    clone.commit([a_remove(theirs)])
    assert stage.vacuum() == set()  # the clone may travel back to it
    assert {one.key for one in clone.vacuum()} == set()


def test_a_table_around_this_one_keeps_what_it_refers_to(stage):
    """Only a table that was detached may lie around another; others read it still."""
    place = stage.tmp_path / "outer"
    options = {"schema": SCHEMA, "partition_by": []}
    outer = stage.catalog.create_table("outer", location=str(place), **options)
    outer.commit([an_add("inner/theirs.parquet", day=None, partition_values={})])
    outer.detach()
    stage.table = stage.catalog.create_table("inner", location=str(place / "inner"), **options)
    stage.put("theirs.parquet")
    stage.put("left.parquet")
    stage.pass_days(30)
    assert stage.vacuum() == {"left.parquet"}
    assert stage.files() == {"theirs.parquet"}
