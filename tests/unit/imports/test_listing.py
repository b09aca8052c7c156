"""Every file of a `_delta_log` is something; what does not count is named, once per kind."""

import json

import pytest

from deltasql.imports.plan.listing import read_listing, sort_listing
from deltasql.protocol.log_names import MAX_VERSION, LastCheckpoint, encode_hint
from deltasql.storage.memory import MemoryStore
from log_listings import URI, UUIDS, classic, codes, commits, listed, multipart, planned, span, v2


def remark(plan, code):
    (found,) = [one for one in plan.warnings if one.code == code]
    return found


@pytest.mark.req("R73")
@pytest.mark.parametrize(
    ("name", "code", "is_note"),
    [
        (f"{1:020d}.crc", "checksum-files", True),
        (f".{1:020d}.json.crc", "hadoop-files", True),
        (f"._last_checkpoint.{UUIDS[0]}.crc", "hadoop-files", True),
        (f"_sidecars/.{UUIDS[0]}.parquet.crc", "hadoop-files", True),
        (f".{2:020d}.json.{UUIDS[0]}.tmp", "hidden-files", True),
        ("_trino_meta/extended_stats.json", "hidden-files", True),
        ("_sidecars", "hidden-files", True),
        (f"{0:020d}.{1:020d}.compacted.json", "compacted-files", True),
        (f"_staged_commits/{2:020d}.{UUIDS[0]}.json", "staged-commits", False),
        (f"_commits/{2:020d}.{UUIDS[0]}.json", "staged-commits", False),
        ("0000000002.json", "other-digits", False),
        ("000000000000000000002.json", "other-digits", False),
        ("2.checkpoint.parquet", "other-digits", False),
        (f"{MAX_VERSION + 1:020d}.json", "version-too-large", False),
        ("99999999999999999999.checkpoint.parquet", "version-too-large", False),
        ("info.txt", "stranger", False),
        (f"{2:020d}.json.bak", "stranger", False),
        (f"{2:020d}.{UUIDS[0]}.json", "stranger", False),
        (f"backup/{2:020d}.json", "stranger", False),
        (f"{9:020d}.crc", "file-above-head", False),
        (f"{1:020d}.{9:020d}.compacted.json", "file-above-head", False),
        (f"{1:020d}.{0:020d}.compacted.json", "stranger", False),
        ("\u0661" * 20 + ".json", "stranger", False),
    ],
)
def test_what_does_not_count_is_named(name, code, is_note):
    plan = planned([*span(0, 1), name])
    assert (plan.head, len(plan.commits)) == (1, 2)
    found = remark(plan, code)
    assert found.key == f"_delta_log/{name}"
    assert found.is_note is is_note
    assert codes(plan) == {code}


def test_a_thousand_files_of_a_kind_make_one_remark():
    plan = planned([*span(0, 999), *(f".{version:020d}.json.crc" for version in range(1000))])
    assert [(str(one.code), one.count) for one in plan.warnings] == [("hadoop-files", 1000)]


def test_a_healthy_log_is_not_remarked_upon():
    hint = encode_hint(LastCheckpoint(10, 12))
    plan = planned([*span(0, 12), classic(10), "_last_checkpoint"], hint=hint)
    assert plan.warnings == ()


def test_the_owner_marker_is_told():
    plan = planned([*span(0, 1), "_deltasql"])
    assert plan.listing.is_owned
    assert codes(plan) == {"owner-marker"}
    assert not planned(span(0, 1)).listing.is_owned


def test_hostile_names_cannot_move_a_terminal():
    plan = planned([*span(0, 1), "\x1b[2Jx"])
    assert remark(plan, "stranger").message.isprintable()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([multipart(10, 1, 3), multipart(10, 3, 3)], "version 10 has 2 of its 3 parts"),
        ([multipart(10, 1, 9_999_999_999)], "version 10 has 1 of its 9999999999 parts"),
        ([multipart(10, 0, 0)], "version 10 has 1 of its 0 parts"),
        ([multipart(5, 1, 2), multipart(10, 1, 2)], "and 1 more are like it"),
    ],
)
def test_an_incomplete_checkpoint_is_not_used(names, told):
    plan = planned([*span(0, 12), *names])
    assert plan.checkpoints == ()
    assert told in remark(plan, "incomplete-checkpoint").message


def test_an_empty_checkpoint_is_not_used():
    plan = planned(span(0, 12), empty=[classic(10)])
    assert plan.checkpoints == ()
    assert remark(plan, "empty-checkpoint").key.endswith(classic(10))


def test_an_empty_part_makes_a_checkpoint_incomplete():
    plan = planned([*span(0, 12), multipart(10, 1, 2)], empty=[multipart(10, 2, 2)])
    assert plan.checkpoints == ()
    assert codes(plan) == {"incomplete-checkpoint", "empty-checkpoint"}


def test_two_checkpoints_of_a_version_are_told_with_the_preferred_one():
    found = remark(planned([*span(0, 12), classic(10), v2(10)]), "several-checkpoints")
    assert f"readers prefer {v2(10)}" in found.message


def test_a_checkpoint_above_all_commits_is_told():
    assert "checkpoint-above-commits" in codes(planned([*span(5, 10), classic(12)]))
    assert "checkpoint-above-commits" not in codes(planned([classic(12)]))


@pytest.mark.parametrize(
    ("hint", "code"),
    [
        (None, "hint-missing"),
        (b"", "hint-corrupt"),
        (b"\xff\xfe", "hint-corrupt"),
        (b"[]", "hint-corrupt"),
        (b'{"version":"10","size":1}', "hint-corrupt"),
        (b'{"version":10,"size":1,"checksum":"0"}', "hint-corrupt"),
        (b'{"version":10,"size":1,"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "hint-corrupt"),
        (encode_hint(LastCheckpoint(10, 12)), "hint-stale"),
        (encode_hint(LastCheckpoint(15, 12)), "hint-dangling"),
        (encode_hint(LastCheckpoint(20, 12, parts=3)), "hint-dangling"),
        (encode_hint(LastCheckpoint(-1, 12)), "hint-dangling"),
        (encode_hint(LastCheckpoint(30, 12)), "hint-above-head"),
        (b'{"version":123456789012345678901234567890,"size":1}', "hint-above-head"),
        (encode_hint(LastCheckpoint(20, 12)), None),
    ],
)
def test_a_hint_is_judged_and_never_trusted(hint, code):
    names = [*span(9, 25), classic(10), classic(20)]
    plan = planned(names, hint=hint)
    assert (plan.base_version, plan.head) == (10, 25)
    assert {one for one in codes(plan) if one.startswith("hint")} == ({code} if code else set())


def test_without_checkpoints_no_hint_is_missed():
    assert codes(planned(span(0, 3))) == set()


@pytest.mark.parametrize("depth", range(900, 1010, 3))
def test_a_hint_of_any_depth_is_at_worst_corrupt(depth):
    tree = '{"version":1,"size":1,"checksum":"x","x":' + "[" * depth + "]" * depth + "}"
    assert "hint-corrupt" in codes(planned([*span(0, 1), classic(1)], hint=tree.encode()))


def test_a_listing_in_any_order_gives_commits_in_theirs():
    files = listed([*span(0, 30), classic(10)])
    assert sort_listing(reversed(files), None, URI) == sort_listing(files, None, URI)
    doubled = sort_listing([*files, *files], None, URI)
    assert doubled.commits == sort_listing(files, None, URI).commits


def test_a_store_is_listed_and_its_hint_read():
    store = MemoryStore(URI, clock=iter(range(100)).__next__)
    for name in (*commits(0, 1, 2), classic(1)):
        store.put(f"_delta_log/{name}", b"12345")
    store.put("_delta_log/_last_checkpoint", json.dumps({"version": 9, "size": 1}).encode())
    found = read_listing(store)
    assert [(file.version, file.size, file.modified_ms) for file in found.commits] == [
        (0, 5, 0),
        (1, 5, 1),
        (2, 5, 2),
    ]
    assert found.commits[1].key == "_delta_log/00000000000000000001.json"
    assert [one.code for one in found.warnings] == ["hint-above-head"]
