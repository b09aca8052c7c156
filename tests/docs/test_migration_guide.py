"""The guide on migration says what the program does: commands, options, codes, names."""

import re
from pathlib import Path

import pytest

from commands import commands_in, parse_command
from deltasql import errors
from deltasql.cli.imports import import_
from deltasql.imports.plan.listing import WarningCode

PAGE = (Path(__file__).parents[2] / "docs/guides/migration.md").read_text(encoding="utf-8")


def classes():
    return [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("words", commands_in(PAGE), ids=" ".join)
def test_every_command_is_one_that_the_program_takes(words):
    assert parse_command(words)


def test_every_option_that_is_named_exists():
    known = {name for option in import_.params for name in option.opts}
    others = {"--keep-data", "--no-fence", "--follow", "--from-log", "--once"}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= known | others


def test_every_option_of_an_import_is_told():
    named = set(re.findall(r"--[a-z-]+", PAGE))
    assert {option.opts[0] for option in import_.params if option.opts[0].startswith("--")} - {
        "--uri",
        "--output",
    } <= named


def test_every_code_is_one_of_ours():
    known = {kind.code for kind in classes() if issubclass(kind, errors.DeltaSqlError)}
    named = set(re.findall(r"\bDS\d{3}\b", PAGE))
    assert named
    assert named <= known


def test_all_warnings_are_listed_and_no_others():
    section = PAGE.partition("## Warnings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| .* \|$", section, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert listed == set(WarningCode)
