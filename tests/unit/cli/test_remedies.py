"""Errors advise in Python; the command line words it for the shell."""

import ast
import importlib
import re
import shlex
from operator import attrgetter
from pathlib import Path

import click
import pytest

import deltasql
from deltasql.api.catalog import Catalog
from deltasql.api.imports import CatalogImports
from deltasql.api.mirror import Mirror
from deltasql.cli.main import COMMANDS as MODULES
from deltasql.cli.main import cli
from deltasql.cli.remedies import ARGUMENTS, COMMANDS, for_shell

SOURCES = Path(deltasql.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![a-z-])")
CALL = re.compile(r"`catalog\.([a-z_.]+)")
ARGUMENT = re.compile(r"`([a-z_]+)=")
OPTIONS_OF_JAVA = {"spark_runtime/java.py"}


@pytest.mark.parametrize(
    ("advice", "worded"),
    [
        ("go on with `resume=True`.", "go on with `--resume`."),
        ("`up_to_version=6` ends it", "`--up-to-version 6` ends it"),
        ("use `engine='local'`", "use `--engine local`"),
        ("`name=` takes another", "`--name` takes another"),
        ("`conf={'spark.x.y': '4g'}`", "`--conf spark.x.y=4g`"),
        ("`catalog.mirror.run_once()`", "`deltasql mirror run --once`"),
        ("`catalog.mirror.rebuild` if lost", "`deltasql recover --from-log` if lost"),
        (
            "`catalog.import_table('s3://b/my table', name='o', force=True)` brings it back",
            "`deltasql import 's3://b/my table' --name o --force` brings it back",
        ),
        (
            "`catalog.imports.validate('lake/o', name='o')`",
            "`deltasql import lake/o --name o --validate-only`",
        ),
        ("see `deltasql tables` or `dl_tables`", "see `deltasql tables` or `dl_tables`"),
        ("`sslmode=require` and `unknown=True`", "`sslmode=require` and `unknown=True`"),
        ("`catalog.drop('a' 1)` and `catalog.drop(open)`",) * 2,
        ("no code at all", "no code at all"),
    ],
)
def test_advice_is_worded_for_the_shell(advice, worded):
    assert for_shell(advice) == worded


@pytest.mark.parametrize("name", ["it's", 'a"b', "$(rm x)", "a)b(", "é\n"])
def test_a_name_reaches_the_shell_as_one_word(name):
    told = for_shell(f"`catalog.drop({name!r})`")
    assert shlex.split(told.strip("`")) == ["deltasql", "drop", name]


def texts() -> list[tuple[str, str]]:
    """Every text below the command line, with its file; docstrings are for readers of the code."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        if file.startswith("cli/") or file in OPTIONS_OF_JAVA:
            continue
        tree = ast.parse(path.read_text())
        notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            (file, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in notes
        ]
    return found


def test_no_flag_is_named_below_the_command_line():
    assert [pair for pair in texts() if FLAG.search(pair[1])] == []


def test_every_call_that_is_advised_exists_and_has_a_command():
    parts = {"imports": CatalogImports, "mirror": Mirror}
    advised = {name for _, text in texts() for name in CALL.findall(text)}
    assert advised
    for name in advised:
        assert name in COMMANDS, name
        first, _, rest = name.partition(".")
        owner = parts[first] if rest else Catalog
        assert callable(attrgetter(rest or first)(owner)), name


def test_every_argument_that_is_advised_has_a_flag():
    advised = {name for _, text in texts() for name in ARGUMENT.findall(text)}
    assert advised
    assert advised <= ARGUMENTS


def commands(group: click.Group) -> list[click.Command]:
    context = click.Context(group)
    found = [group.get_command(context, name) for name in group.list_commands(context)]
    below = [one for each in found if isinstance(each, click.Group) for one in commands(each)]
    return [*found, *below]


def test_the_flags_and_commands_exist():
    for module, _ in MODULES.values():
        importlib.import_module(f"deltasql.cli.{module}")
    known = commands(cli)
    flags = {flag for one in [cli, *known] for p in one.params for flag in p.opts}
    assert {f"--{name.replace('_', '-')}" for name in ARGUMENTS} <= flags
    names = {one.name for one in known}
    for shell in COMMANDS.values():
        assert set(shell.command.split()) <= names
        assert set(shell.flags) <= flags
