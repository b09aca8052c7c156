"""Numbers as people read them."""

import pytest

from deltasql.cli.output import clock_text, count_text, size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (5e8, "500.0 MB"), (3e15, "3000.0 TB")],
)
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 seconds"),
        (9.96, "10.0 seconds"),
        (61, "61 seconds"),
        (300, "5 minutes"),
        (9000, "2.5 hours"),
    ],
)
def test_times_in_words(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0:00:00"), (65, "0:01:05"), (7322, "2:02:02")])
def test_times_as_a_clock_shows_them(seconds, text):
    assert clock_text(seconds) == text


def test_one_and_many():
    assert count_text(1, "version") == "1 version"
    assert count_text(1000, "version") == "1,000 versions"
