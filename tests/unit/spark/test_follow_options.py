"""The options of streams and of the change feed, as Delta spells them."""

import pytest

from deltasql.errors import BadArgumentError
from deltasql.spark.streaming.stream_options import (
    FollowOptions,
    VersionOrTimestamp,
    parse_follow_options,
    split_options,
)


def parsed(**options):
    return parse_follow_options({key: str(value) for key, value in options.items()})


def test_nothing_told_is_what_delta_does():
    assert parsed() == FollowOptions()
    assert FollowOptions().max_files == 1000


def test_names_in_any_case():
    table, follow = split_options({"uri": "x", "STARTINGversion": "3", "columns": "a"})
    assert (table, follow) == ({"uri": "x", "columns": "a"}, {"STARTINGversion": "3"})
    assert parse_follow_options(follow).start == VersionOrTimestamp(version=3)


@pytest.mark.parametrize("name", ["readChangeFeed", "readChangeData"])
def test_both_names_of_the_feed(name):
    assert parsed(**{name: "TRUE"}).is_feed


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("7b", 7), ("2k", 2048), ("3 MB", 3 << 20), ("1g", 1 << 30)]
)
def test_sizes(text, size):
    chosen = parsed(maxBytesPerTrigger=text)
    assert (chosen.max_bytes, chosen.max_files) == (size, None)


def test_a_time_is_in_milliseconds():
    assert parsed(startingTimestamp="1970-01-02").start == VersionOrTimestamp(timestamp=86_400_000)


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": "latest", "startingTimestamp": "2020-01-01"},
        {"endingVersion": "1", "endingTimestamp": "2020-01-01"},
        {"endingVersion": "latest"},
        {"maxFilesPerTrigger": "1.5"},
        {"maxBytesPerTrigger": "0"},
        {"maxBytesPerTrigger": "1.5g"},
        {"failOnDataLoss": ""},
    ],
)
def test_values_that_do_not_fit(options):
    with pytest.raises(BadArgumentError):
        parsed(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"readChangeFeed": "true"}, "where to begin"),
        ({"startingVersion": "1"}, "for the change feed"),
        ({"readChangeFeed": "true", "startingVersion": "latest"}, "for streams"),
        (
            {"readChangeFeed": "true", "startingVersion": "1", "ignoreDeletes": "true"},
            "ignoreDeletes is for streams",
        ),
    ],
)
def test_what_a_read_of_the_feed_needs(options, said):
    with pytest.raises(BadArgumentError, match=said):
        parse_follow_options(options).for_batch(options)
