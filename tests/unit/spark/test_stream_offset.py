"""Offsets as a checkpoint keeps them."""

import json

import pytest

from deltasql.errors import StreamError
from deltasql.spark.streaming.batches import StreamOffset

OFFSET = StreamOffset("t", 1, 7, 3, is_snapshot=False, is_feed=True, commit_id="c")


def test_there_and_back():
    text = json.dumps(OFFSET.to_json())
    assert StreamOffset.from_json(json.loads(text)) == OFFSET
    # Spark compares texts
    assert json.dumps(StreamOffset.from_json(json.loads(text)).to_json()) == text


@pytest.mark.parametrize(
    ("index", "is_snapshot", "touched"), [(0, False, 6), (1, False, 7), (0, True, 7)]
)
def test_the_newest_version_of_which_something_was_read(index, is_snapshot, touched):
    assert StreamOffset("t", 1, 7, index, is_snapshot).touched == touched


@pytest.mark.parametrize(
    "change",
    [{"form": 2}, {"version": "7"}, {"index": True}, {"isInitialSnapshot": 0}, {"tableId": None}],
)
def test_what_is_none_of_ours(change):
    with pytest.raises(StreamError):
        StreamOffset.from_json({**OFFSET.to_json(), **change})
