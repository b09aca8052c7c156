"""Reading the files of a commit many at a time says what reading each line of it says."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from action_strategies import ACTIONS, ADDS, REMOVES
from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import Add, Remove
from deltasql.protocol.codec import CommitParts, decode_commit, decode_parts, serialize_actions
from mutations import mutated

BLANKS = ("", "", "", " ", "\r", "\t \r")
SEPARATORS = ((",", ":"), (", ", ": "), (" ,", " : "))


@st.composite
def commits(draw) -> bytes:
    """The lines of a commit, as any writer of JSON may space and end them."""
    actions = draw(st.lists(ADDS | REMOVES | ACTIONS, max_size=6))
    return b"".join(draw(spelled(line)) for line in serialize_actions(actions).splitlines())


@st.composite
def spelled(draw, line: bytes) -> bytes:
    before, inside, after = (draw(st.sampled_from(BLANKS)) for _ in range(3))
    text = json.dumps(
        json.loads(line),
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from(SEPARATORS)),
    )
    end = draw(st.sampled_from(("\n", "\r\n", "\n\n")))
    return f"{before}{{{inside}{text[1:]}{after}{end}".encode()


def read(decode, payload: bytes):
    """What a decoder says: the actions by kind, or the words of its refusal."""
    try:
        found = decode(payload, version=7, schemaless=True)
    except MalformedActionError as error:
        return error.message
    if isinstance(found, CommitParts):
        return found
    return CommitParts(
        [action for action in found if isinstance(action, Add)],
        [action for action in found if isinstance(action, Remove)],
        [action for action in found if not isinstance(action, Add | Remove)],
    )


@given(commits())
def test_every_spelling_is_read_alike(payload):
    assert read(decode_parts, payload) == read(decode_commit, payload)


@given(commits(), st.integers())
def test_damaged_commits_are_read_alike(payload, seed):
    damaged = mutated(random.Random(seed), payload)
    assert read(decode_parts, damaged) == read(decode_commit, damaged)


def test_files_behind_blanks_are_files():
    lines = (
        b'{"remove":{"path":"a","dataChange":true}}',
        b'\r{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{ "remove" : {"path":"c","dataChange":true}}',
    )
    found = decode_parts(b"\n".join(lines), version=0)
    assert [add.path for add in found.adds] == ["b"]
    assert [remove.path for remove in found.removes] == ["a", "c"]
    assert found.others == []


def test_lines_with_both_or_none_of_add_and_remove_are_read_alike():
    add = b'{"path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}'
    payload = b'{"add":null}\n{"add":%b,"remove":{"path":"a","dataChange":true}}' % add
    refused = read(decode_commit, payload)
    assert isinstance(refused, str)
    assert read(decode_parts, payload) == refused
