"""Commits folded into one leave the table that the commits leave one by one."""

import pytest
from hypothesis import given

from deltasql.protocol.actions import Add, CommitInfo, Remove, file_key
from deltasql.protocol.changes import NetActions
from histories import replay
from history_strategies import COMMIT, HISTORIES


def known(actions, state):
    """The actions without removes of files that the table does not have: no commit has those."""
    return [
        action
        for action in actions
        if not isinstance(action, Remove) or file_key(action) in state.files
    ]


def values(files):
    return {key: (add.path, add.size) for key, add in files.items()}


@pytest.mark.req("R40")
@given(COMMIT, HISTORIES)
def test_a_folded_commit_replays_as_its_parts_do(first, history):
    base = [action for action in first if not isinstance(action, Remove)]
    state, live = replay([(0, base)]), replay([(0, base)]).files
    net = NetActions(lambda keys: live.keys() & set(keys))
    for version, actions in enumerate(history, start=1):
        commit = known(actions, state)
        state.apply(version, commit)
        net.commit(commit)
    folded = replay([(0, base), (1, net.actions)])
    assert values(folded.files) == values(state.files)
    assert (folded.protocol, folded.metadata) == (state.protocol, state.metadata)
    assert (folded.txns, folded.domains) == (state.txns, state.domains)
    keys = [file_key(action) for action in net.actions if isinstance(action, Add | Remove)]
    assert len(keys) == len(set(keys))
    assert {file_key(action) for action in net.removes.values()} <= live.keys()
    assert sum(isinstance(action, CommitInfo) for action in net.actions) <= 1
