"""Newest wins, per kind and per file."""

from commits import add, info, metadata, remove, vector
from deltasql.protocol.actions import Cdc, DomainMetadata, Protocol, Txn, UnknownAction
from deltasql.testing.invariants import TableState
from histories import replay


def domain(name: str, text: str = "", *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=text, removed=removed)


def live(state: TableState) -> set[tuple[str, str]]:
    return {(action.path, action.dv_id) for action in state.files.values()}


def test_nothing_replayed_is_an_empty_table_before_its_first_version():
    state = replay([])
    assert (state.version, state.protocol, state.metadata, state.files) == (-1, None, None, {})


def test_the_newest_protocol_metadata_and_time_win():
    old = Protocol(min_reader_version=1, min_writer_version=2)
    new = Protocol(min_reader_version=1, min_writer_version=4)
    state = replay(
        [
            (0, [info(in_commit_timestamp=5), old, metadata()]),
            (1, [info(in_commit_timestamp=6), new]),
            (2, [metadata(name="renamed"), info(in_commit_timestamp=7)]),
        ]
    )
    assert state.version == 2
    assert (state.protocol, state.metadata.name) == (new, "renamed")
    assert state.in_commit_timestamp == 7


def test_a_remove_ends_a_file_and_leaves_a_tombstone():
    state = replay([(0, [add("a"), add("b")]), (1, [remove("a")])])
    assert live(state) == {("b", "")}
    assert set(state.tombstones) == {("a", "")}


def test_a_file_added_again_is_live_without_a_tombstone():
    again = add("a", size=9)
    state = replay([(0, [add("a")]), (1, [remove("a")]), (2, [again])])
    assert state.files == {("a", ""): again}
    assert state.tombstones == {}


def test_a_second_add_takes_the_place_of_the_first():
    assert replay([(0, [add("a")]), (1, [add("a", size=9)])]).files[("a", "")].size == 9


def test_an_update_by_vector_replaces_the_file_with_the_old_vector():
    new = add("f", deletion_vector=vector(2))
    state = replay(
        [
            (0, [add("f")]),
            (1, [add("f", deletion_vector=vector(1)), remove("f")]),
            (2, [remove("f", deletion_vector=vector(1)), new]),
        ]
    )
    assert live(state) == {("f", new.dv_id)}
    assert len(state.tombstones) == 2


def test_removes_count_before_adds_within_a_commit():
    for order in ([remove("a"), add("a", size=2)], [add("a", size=2), remove("a")]):
        assert replay([(0, [add("a")]), (1, order)]).files[("a", "")].size == 2


def test_a_remove_spelled_otherwise_ends_an_absolute_path_but_not_a_relative_one():
    state = replay([(0, [add("file:/x"), add("a%20b")]), (1, [remove("/x"), remove("a b")])])
    assert live(state) == {("a%20b", "")}


def test_the_newest_word_of_an_application_counts_even_if_lower():
    state = replay([(n, [Txn(app_id="a", version=v)]) for n, v in enumerate((5, 9, 7))])
    assert state.txns["a"].version == 7


def test_a_removed_domain_is_gone_and_may_come_back():
    state = replay([(0, [domain("d", "1"), domain("e")]), (1, [domain("d", removed=True)])])
    assert set(state.domains) == {"e"}
    state.apply(2, [domain("d", "2")])
    assert state.domains["d"].configuration == "2"


def test_what_is_no_state_changes_none():
    cdc = Cdc(path="c", partition_values={}, size=1, data_change=False)
    state = replay([(0, [add("a"), cdc, UnknownAction(kind="x", body={}), info()])])
    assert live(state) == {("a", "")}
