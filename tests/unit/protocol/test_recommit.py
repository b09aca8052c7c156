"""May a foreign commit stand above commits that it never saw? By what its actions tell."""

import pytest

from commits import add, info, metadata, remove, vector
from deltasql.protocol.actions import CommitInfo, DomainMetadata, Protocol, Txn, UnknownAction
from deltasql.protocol.conflicts import (
    Winner,
    find_obstacle,
    find_own_obstacle,
    known_reads,
    says_blind,
)

BLIND = CommitInfo(is_blind_append=True)
DOMAIN = DomainMetadata(domain="d", configuration="{}", removed=False)
COMPACTION = [add("new", data_change=False), remove("a", data_change=False)]


def obstacle(theirs, ours):
    return find_obstacle(theirs, 5, [Winner(5, "WRITE", "t", ours)])


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([BLIND, add("a")], True),
        ([BLIND, add("a"), Txn(app_id="x", version=1)], True),
        ([add("a")], False),
        ([CommitInfo(is_blind_append=False), add("a")], False),
        ([CommitInfo(is_blind_append="true"), add("a")], False),
        ([BLIND, add("a"), remove("b")], False),
        ([BLIND, add("a"), metadata()], False),
    ],
)
def test_a_commit_is_blind_by_its_own_word_and_its_actions(actions, expected):
    assert says_blind(actions) is expected


def test_what_was_read_is_the_whole_table_unless_the_commit_shows_less():
    assert known_reads([BLIND, add("a")], 4).is_empty
    assert known_reads([add("a")], 4).whole_table
    assert known_reads([add("a", data_change=False)], 4).whole_table
    assert known_reads([add("a"), remove("b", data_change=False)], 4).whole_table
    compaction = known_reads(COMPACTION, 4)
    assert (compaction.whole_table, compaction.files) == (False, frozenset({("a", "")}))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ([BLIND, add("a")], [add("b"), remove("c"), DOMAIN, Txn(app_id="x", version=1)]),
        ([BLIND, add("a"), Txn(app_id="y", version=1)], [Txn(app_id="x", version=1)]),
        (COMPACTION, [add("b"), remove("c")]),
        ([remove("a")], [DOMAIN, info()]),
        ([BLIND, add("a", deletion_vector=vector(1))], [add("a", deletion_vector=vector(2))]),
    ],
)
def test_what_can_be_committed_again(theirs, ours):
    assert obstacle(theirs, ours) is None


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ([BLIND, add("a")], [metadata()], "metadata"),
        ([BLIND, add("a")], [Protocol(min_reader_version=1, min_writer_version=2)], "protocol"),
        ([BLIND, add("a")], [add("a")], "both wrote the same file"),
        ([BLIND, add("a")], [remove("a")], "it removed a, which the commit adds"),
        ([BLIND, Txn(app_id="x", version=2)], [Txn(app_id="x", version=1)], "same application"),
        (COMPACTION, [remove("a")], "both removed the same file"),
        (COMPACTION, [add("a")], "both wrote the same file"),
        ([remove("a")], [add("b")], "not recorded"),
        ([remove("a")], [remove("b")], "not recorded"),
        ([add("a")], [add("b")], "not recorded"),
    ],
)
def test_what_cannot(theirs, ours, reason):
    found = obstacle(theirs, ours)
    assert found.startswith("against version 5 of SQL (WRITE): ")
    assert reason in found


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (metadata(), "metaData"),
        (Protocol(min_reader_version=1, min_writer_version=2), "protocol"),
        (DOMAIN, "domainMetadata"),
        (UnknownAction(kind="later", body={}), "later"),
        (add("a", base_row_id=7), "row ids"),
        (add("a", default_row_commit_version=2), "names version 2"),
    ],
)
def test_what_only_its_own_history_gives_a_meaning(action, reason):
    assert reason in find_own_obstacle([BLIND, action])


def test_files_and_applications_have_no_number_of_their_own():
    assert find_own_obstacle([BLIND, *COMPACTION, Txn(app_id="x", version=1)]) is None
