"""Frozen bytes: the canonical form v1 never changes, on any Python, in any release.

A file here is changed by nobody. A new case is a new file and a new line in SHA256SUMS.
"""

from pathlib import Path

import pytest

from commits import COMMITS
from deltasql.protocol.codec import decode_commit, digest, serialize_actions
from deltasql.protocol.validate import check_commit, validate_payload

FOLDER = Path(__file__).with_name("canonical")
DIGESTS = {
    name: value
    for value, name in (
        line.split() for line in (FOLDER / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    )
}
pytestmark = [pytest.mark.req("R2", "R3", "R21", "R22", "R23", "R47")]


def frozen(name: str) -> bytes:
    return (FOLDER / f"{name}.json").read_bytes()


def test_every_case_is_frozen():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(COMMITS)
    assert set(DIGESTS) == {f"{name}.json" for name in COMMITS}


@pytest.mark.parametrize("name", COMMITS)
def test_the_bytes_are_those_that_were_frozen(name):
    payload = serialize_actions(COMMITS[name])
    assert payload == frozen(name)
    assert digest(payload) == DIGESTS[f"{name}.json"]


@pytest.mark.parametrize("name", COMMITS)
def test_frozen_bytes_decode_to_the_same_actions_and_back(name):
    actions = decode_commit(frozen(name), version=0)
    assert serialize_actions(actions) == frozen(name)
    assert len(actions) == len(COMMITS[name])
    assert all(action in actions for action in COMMITS[name] if action.kind != "protocol")


@pytest.mark.parametrize("name", COMMITS)
def test_frozen_commits_are_valid(name):
    validate_payload(frozen(name), version=0)
    check_commit(decode_commit(frozen(name), version=0), partition_columns=["day"])
