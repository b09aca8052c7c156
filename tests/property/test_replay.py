"""Replay against a naive model: the list of versions, scanned backwards for the first word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.protocol.actions import Add, DomainMetadata, Metadata, Protocol, Remove, Txn
from histories import replay
from history_strategies import HISTORIES, place


def newest(history, kind, subject=lambda _: None):
    """Per subject, the last action of that kind: the versions scanned backwards."""
    found = {}
    for actions in reversed(history):
        for action in actions:
            if isinstance(action, kind):
                found.setdefault(subject(action), action)
    return found


@pytest.mark.req("R40")
@given(HISTORIES)
def test_files_are_what_was_said_of_them_last(history):
    state = replay(enumerate(history))
    last = newest(history, Add | Remove, place)
    live = {at: action for at, action in last.items() if isinstance(action, Add)}
    gone = {at: action for at, action in last.items() if isinstance(action, Remove)}
    assert {place(action): action for action in state.files.values()} == live
    assert len(state.files) == len(live)
    assert {place(action): action for action in state.tombstones.values()} == gone
    assert len(state.tombstones) == len(gone)


@given(HISTORIES)
def test_everything_else_is_what_was_said_last(history):
    state = replay(enumerate(history))
    assert state.version == len(history) - 1
    assert state.metadata == newest(history, Metadata).get(None)
    assert state.protocol == newest(history, Protocol).get(None)
    assert state.txns == newest(history, Txn, lambda txn: txn.app_id)
    domains = newest(history, DomainMetadata, lambda domain: domain.domain)
    assert state.domains == {name: one for name, one in domains.items() if not one.removed}


@given(HISTORIES, st.data())
def test_a_replay_may_be_continued_from_any_version(history, data):
    cut = data.draw(st.integers(0, len(history)))
    state = replay(enumerate(history[:cut]))
    for version in range(cut, len(history)):
        state.apply(version, history[version])
    assert state == replay(enumerate(history))


@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_within_a_commit_does_not_matter(history, chance):
    mixed = [chance.sample(actions, len(actions)) for actions in history]
    assert replay(enumerate(mixed)) == replay(enumerate(history))
