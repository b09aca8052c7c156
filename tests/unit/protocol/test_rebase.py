"""May a commit stand above commits that it never saw? By what its actions still tell."""

import pytest

from commits import add, info, metadata, remove, vector
from deltasql.protocol.actions import CommitInfo, DomainMetadata, Protocol, Txn
from deltasql.protocol.codec import decode_commit, serialize_actions
from deltasql.protocol.conflicts import Winner
from deltasql.protocol.rebase import REBASED_KEY, find_obstacle, known_reads, rebased_info

DOMAIN = DomainMetadata(domain="d", configuration="{}", removed=False)
COMPACTION = [add("new", data_change=False), remove("a", data_change=False)]


def obstacle(ours, theirs, *, is_blind=False):
    return find_obstacle(ours, 5, [Winner(5, "FOREIGN", "t", theirs)], is_blind=is_blind)


def test_what_was_read_is_the_whole_table_unless_the_commit_shows_less():
    assert known_reads([add("a")], 4, is_blind=True).is_empty
    assert known_reads([add("a")], 4, is_blind=False).whole_table
    assert known_reads([metadata()], 4, is_blind=False).whole_table
    assert known_reads([*COMPACTION, DOMAIN], 4, is_blind=False).whole_table
    compaction = known_reads(COMPACTION, 4, is_blind=False)
    assert (compaction.whole_table, compaction.files) == (False, frozenset({("a", "")}))


@pytest.mark.parametrize(
    ("ours", "theirs", "is_blind"),
    [
        ([add("a")], [add("b"), remove("c"), DOMAIN, Txn(app_id="x", version=1)], True),
        ([add("a"), Txn(app_id="y", version=1)], [Txn(app_id="x", version=1)], True),
        (COMPACTION, [add("b"), remove("c")], False),
        ([remove("a")], [DOMAIN, info()], False),
        ([metadata()], [Txn(app_id="x", version=1)], False),
        ([add("a", deletion_vector=vector(1))], [add("a", deletion_vector=vector(2))], True),
    ],
)
def test_what_moves(ours, theirs, is_blind):
    assert obstacle(ours, theirs, is_blind=is_blind) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "is_blind", "reason"),
    [
        ([add("a")], [metadata()], True, "metadata"),
        ([add("a")], [Protocol(min_reader_version=1, min_writer_version=2)], True, "protocol"),
        ([add("a")], [add("a")], True, "both wrote the same file"),
        ([add("a")], [remove("a")], True, "it removed a, which this commit adds"),
        ([Txn(app_id="x", version=2)], [Txn(app_id="x", version=1)], True, "same application"),
        (COMPACTION, [remove("a")], False, "both removed the same file"),
        ([remove("a")], [add("b")], False, "not recorded"),
        ([remove("a")], [remove("b")], False, "not recorded"),
        ([add("a")], [add("b")], False, "not recorded"),
        ([DOMAIN], [DOMAIN], False, "same metadata domain"),
        ([add("a", default_row_commit_version=5)], [add("b")], True, "names version 5"),
    ],
)
def test_what_does_not(ours, theirs, is_blind, reason):
    assert reason in obstacle(ours, theirs, is_blind=is_blind)


def test_metadata_that_names_its_own_version_does_not_move():
    named = {"delta.inCommitTimestampEnablementVersion": "5"}
    assert "names version 5" in obstacle([metadata(configuration=named)], [DOMAIN])
    other = {"delta.inCommitTimestampEnablementVersion": "3"}
    assert obstacle([metadata(configuration=other)], [DOMAIN]) is None


def test_the_number_that_was_acknowledged_first_stays():
    moved = rebased_info(info(), 5, 2, first=5, timestamp=9, has_own_time=True)
    assert moved.extra == {REBASED_KEY: 5}
    again = rebased_info(moved, 7, 1, first=7, timestamp=10, has_own_time=True)
    assert (again.extra, again.timestamp, again.in_commit_timestamp) == ({REBASED_KEY: 5}, 10, 10)
    payload = serialize_actions([again])
    assert decode_commit(payload, version=8) == [again]


@pytest.mark.parametrize(("read", "after"), [(4, 4), (5, 7), (6, 8), (None, None), ("x", "x")])
def test_a_read_version_that_moved_is_told_by_its_new_number(read, after):
    given = CommitInfo(read_version=read)
    moved = rebased_info(given, 7, 2, first=5, timestamp=9, has_own_time=False)
    assert (moved.read_version, moved.in_commit_timestamp) == (after, None)
