"""Delta's conflict rules (protocol facts 5.1), each with both outcomes."""

import pytest

from commits import add, info, metadata, remove, vector
from deltasql.protocol.actions import Cdc, DomainMetadata, Protocol, Txn
from deltasql.protocol.conflicts import (
    Isolation,
    ReadSet,
    Winner,
    find_conflict,
    is_blind_append,
    isolation_of,
)

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
BLIND = ReadSet(3)
WHOLE = ReadSet(3, whole_table=True)
pytestmark = pytest.mark.req("R86")


def domain(name: str) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration="", removed=False)


def txn(app_id: str, version: int = 1) -> Txn:
    return Txn(app_id=app_id, version=version)


def reason(ours, read, *winners) -> str | None:
    """Why these actions cannot follow the winners, version by version."""
    won = [Winner(4 + n, "WRITE", f"c{n}", actions) for n, actions in enumerate(winners)]
    found = find_conflict(ours, read, won)
    return None if found is None else found.reason


def test_without_winners_there_is_no_conflict():
    assert reason([metadata(), PROTOCOL, remove("a")], WHOLE) is None


@pytest.mark.parametrize("read", [BLIND, WHOLE])
def test_1_a_changed_protocol_conflicts_with_everything(read):
    assert "protocol" in reason([add("a")], read, [PROTOCOL])


@pytest.mark.parametrize("read", [BLIND, WHOLE])
def test_2_changed_metadata_conflicts_with_everything(read):
    assert "metadata" in reason([add("a")], read, [metadata()])


def test_2_our_change_of_metadata_does_not_conflict_with_a_blind_append():
    assert reason([metadata()], BLIND, [add("won")]) is None


def test_3_the_same_domain_conflicts_and_another_does_not():
    assert "domain" in reason([domain("d")], BLIND, [domain("d")])
    assert reason([domain("d")], BLIND, [domain("e")]) is None
    assert reason([add("a")], BLIND, [domain("d")]) is None


def test_4_an_application_that_we_read_or_write_conflicts_and_another_does_not():
    assert "application" in reason([add("a")], ReadSet(3, app_ids=frozenset({"app"})), [txn("app")])
    assert "application" in reason([add("a"), txn("app", 2)], BLIND, [txn("app")])
    assert reason([add("a"), txn("app")], BLIND, [txn("other")]) is None
    assert reason([add("a")], BLIND, [txn("app")]) is None


def test_5_an_add_conflicts_with_who_read_the_whole_table():
    assert "should have read" in reason([remove("a")], WHOLE, [add("won")])


def test_5_an_add_conflicts_only_where_the_predicate_matches():
    read = ReadSet(3, matches=lambda one: one.partition_values["day"] == "a")
    ours = [add("mine")]
    assert "should have read" in reason(ours, read, [add("won", partition_values={"day": "a"})])
    assert reason(ours, read, [add("won", partition_values={"day": "b"})]) is None


def test_5_a_blind_append_conflicts_with_no_add():
    assert reason([add("a")], BLIND, [add("b")], [add("c"), remove("d")]) is None


def test_5_without_data_change_adds_do_not_disturb():
    compaction = [add("new", data_change=False), remove("old", data_change=False)]
    read = ReadSet(3, files=frozenset({("old", "")}))
    assert isolation_of(compaction) is Isolation.SNAPSHOT
    assert reason(compaction, read, [add("won")]) is None
    assert reason(compaction, ReadSet(3, matches=lambda _: True), [add("won")]) is None
    assert "removed" in reason(compaction, read, [remove("old")])


def test_6_a_removed_file_conflicts_with_who_read_it():
    read = ReadSet(3, files=frozenset({("read", "")}))
    assert "that this commit read" in reason([add("a")], read, [remove("read")])
    assert reason([add("a")], read, [remove("other")]) is None


def test_6_a_removed_file_conflicts_with_who_read_the_whole_table():
    assert "that this commit read" in reason([add("a")], WHOLE, [remove("any")])


def test_6_the_vector_says_which_file_was_read():
    read = ReadSet(3, files=frozenset({("f", "")}))
    assert reason([add("a")], read, [remove("f", deletion_vector=vector())]) is None


def test_7_two_removes_of_one_file_conflict_and_of_two_files_do_not():
    assert "both removed" in reason([remove("f")], BLIND, [remove("f")])
    assert reason([remove("f")], BLIND, [remove("g")]) is None
    assert "both removed" in reason([remove("/x")], BLIND, [remove("file:/x")])


def test_the_same_file_written_by_both_conflicts():
    assert "both wrote" in reason([add("f")], BLIND, [add("f")])
    assert "both wrote" in reason([remove("f")], BLIND, [add("f", size=9)])
    assert reason([add("f")], BLIND, [add("f", deletion_vector=vector())]) is None


def test_what_is_no_state_conflicts_with_nothing():
    cdc = Cdc(path="c", partition_values={}, size=1, data_change=False)
    assert reason([remove("f")], WHOLE, [cdc, info()]) is None


def test_the_first_winner_in_version_order_is_named():
    winners = [Winner(4, "WRITE", "x", [info()]), Winner(5, "DELETE", "y", [remove("f")])]
    found = find_conflict([remove("f")], BLIND, [*winners, Winner(6, "Z", "z", [remove("f")])])
    assert found.winner.version == 5
    text = found.describe("UPDATE", 3)
    assert text == (
        "UPDATE on version 3 conflicts with version 5 (DELETE): both removed the same file (f)."
    )


@pytest.mark.parametrize(
    ("actions", "read", "blind"),
    [
        ([add("a"), add("b")], BLIND, True),
        ([add("a"), txn("app"), info()], BLIND, True),
        ([add("a")], WHOLE, False),
        ([add("a")], ReadSet(3, files=frozenset({("f", "")})), False),
        ([add("a")], ReadSet(3, matches=lambda _: False), False),
        ([add("a")], ReadSet(3, app_ids=frozenset({"app"})), False),
        ([add("a"), remove("b")], BLIND, False),
        ([metadata()], BLIND, False),
        ([PROTOCOL], BLIND, False),
        ([domain("d")], BLIND, False),
    ],
)
def test_a_blind_append_only_adds_and_read_nothing(actions, read, blind):
    assert is_blind_append(actions, read) is blind


@pytest.mark.parametrize(
    ("actions", "level"),
    [
        ([add("a")], Isolation.SERIALIZABLE),
        ([add("a", data_change=False)], Isolation.SNAPSHOT),
        ([add("a", data_change=False), remove("b")], Isolation.SERIALIZABLE),
        ([metadata()], Isolation.SERIALIZABLE),
        ([], Isolation.SERIALIZABLE),
    ],
)
def test_only_commits_without_data_change_are_snapshot_isolated(actions, level):
    assert isolation_of(actions) is level
