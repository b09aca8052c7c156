"""Laws of the canonical form, for any actions."""

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from action_strategies import ACTIONS
from deltasql.protocol.codec import (
    decode_commit,
    digest,
    from_json_object,
    serialize_actions,
    to_json_object,
)
from deltasql.protocol.validate import validate_payload

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
COMMITS = st.lists(ACTIONS, max_size=6)


def by_line(actions):
    return sorted(actions, key=lambda action: serialize_actions([action]))


@pytest.mark.req("R40")
@given(ACTIONS)
def test_an_action_comes_back_as_it_was(action):
    assert decode_commit(serialize_actions([action]), version=0) == [action]


@given(COMMITS)
def test_a_commit_comes_back_with_all_its_actions(actions):
    payload = serialize_actions(actions)
    assert by_line(decode_commit(payload, version=0)) == by_line(actions)
    assert payload.count(b"\n") == len(actions)


@pytest.mark.req("R3", "R21")
@given(COMMITS, st.randoms(use_true_random=False))
def test_equal_commits_have_equal_bytes_in_any_order(actions, chance: random.Random):
    payload = serialize_actions(actions)
    shuffled = [shuffled_maps(action, chance) for action in actions]
    chance.shuffle(shuffled)
    assert serialize_actions(shuffled) == payload
    assert digest(serialize_actions(shuffled)) == digest(payload)


def shuffled_maps(action, chance: random.Random):
    """The same action with the keys of all its objects in another order."""

    def mixed(value):
        if isinstance(value, dict):
            items = [(key, mixed(one)) for key, one in value.items()]
            chance.shuffle(items)
            return dict(items)
        return [mixed(one) for one in value] if isinstance(value, list) else value

    return from_json_object(mixed(to_json_object(action)))


@given(COMMITS)
def test_canonical_bytes_are_a_fixed_point(actions):
    payload = serialize_actions(actions)
    assert serialize_actions(decode_commit(payload, version=0)) == payload
    assert serialize_actions(decode_commit(payload, version=0, lenient=True)) == payload


@pytest.mark.req("R24")
@given(COMMITS)
def test_every_line_is_valid_by_the_published_schema(actions):
    validate_payload(serialize_actions(actions), version=0)


@pytest.mark.req("R2")
@given(COMMITS)
def test_every_line_is_one_compact_object_with_sorted_keys(actions):
    def keys_of(pairs):
        assert [key for key, _ in pairs] == sorted({key for key, _ in pairs})
        return dict(pairs)

    for line in serialize_actions(actions).decode().removesuffix("\n").split("\n"):
        if line:
            assert len(json.loads(line, object_pairs_hook=keys_of)) == 1
            assert not re.search(r"\s", STRING.sub("", line))


@given(ACTIONS)
def test_plain_objects_are_the_same_actions(action):
    assert from_json_object(to_json_object(action)) == action
