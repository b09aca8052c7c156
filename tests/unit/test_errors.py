"""Messages of errors: one printable line, of bounded length, also between processes."""

import pickle

import pytest

from deltasql.errors import DeltaSqlError, InvalidCommitError, MalformedActionError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("plain é 日本 😀 text", "plain é 日本 😀 text"),
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\x1b[2Jcleared", r"\x1b[2Jcleared"),
        ("a\0b\x7f", r"a\x00b\x7f"),
        ("\u202eturned \u2028 \ud800", r"\u202eturned \u2028 \ud800"),
    ],
)
def test_a_message_is_one_printable_line(given, told):
    assert str(DeltaSqlError(given)) == told


def test_a_long_message_tells_both_its_ends():
    text = str(InvalidCommitError("begin " + "x" * 1_000_000 + " end"))
    assert len(text) <= 1000
    assert text.startswith("begin x")
    assert text.endswith("x end")


@pytest.mark.parametrize("text", ["short", "a\nb", "x" * 5000])
def test_errors_survive_pickling_with_all_they_carry(text):
    error = MalformedActionError(text, hint="look there", version=3, line=7)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is MalformedActionError
    assert (again.message, again.advice) == (error.message, "look there")
    assert again.context == {"version": 3, "line": 7}


def test_without_a_message_the_class_speaks():
    assert str(InvalidCommitError()) == (InvalidCommitError.__doc__ or "").splitlines()[0]
