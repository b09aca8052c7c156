"""`make lint` finds names that were retired, in code and in prose, and nothing else."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))

from words import retired_words

PHRASE = "the " + "book"


def test_a_retired_name_is_found_with_what_to_write():
    assert retired_words("x = 1\nclass StagedTable: ...\n") == [
        (2, "StagedTable is retired: TableWrite")
    ]


def test_a_retired_phrase_is_found_in_comments_and_docstrings():
    source = f'"""All of {PHRASE}."""\n# {PHRASE.capitalize()}.\n'
    assert [line for line, _ in retired_words(source)] == [1, 2]


def test_other_words_are_let_through():
    assert retired_words('table_write = "StagedTable"  # a notebook, rebooked\n') == []
