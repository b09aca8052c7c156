"""Word for the shell what an error advises.

Below the command line advice is worded for Python: `resume=True`, or a call such as
`catalog.import_table("s3://lake/orders", name="orders", force=True)`. Both stand in backticks.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltasql.errors import DeltaSqlError

_SPAN = re.compile(r"`([^`]+)`")
_ARGUMENT = re.compile(r"([a-z_]+)=(.*)")
_CALL = re.compile(r"catalog\.([a-z_.]+)(\(.*\))?")


@dataclass(frozen=True, slots=True)
class Shell:
    """The command that does what a method of the catalog does, with the flags it always needs."""

    command: str
    flags: tuple[str, ...] = ()


COMMANDS: Final[Mapping[str, Shell]] = {
    "cutover": Shell("cutover"),
    "drop": Shell("drop"),
    "dropped_tables": Shell("tables", ("--dropped",)),
    "import_table": Shell("import"),
    "imports.look_below": Shell("import", ("--lake",)),
    "imports.validate": Shell("import", ("--validate-only",)),
    "mirror.rebuild": Shell("recover", ("--from-log",)),
    "mirror.run_once": Shell("mirror run", ("--once",)),
}
# Arguments that have a flag of their name.
ARGUMENTS: Final = frozenset(
    {
        "accept_differences",
        "adopt",
        "allow_short_retention",
        "checkpoint_only",
        "conf",
        "config",
        "engine",
        "exist_ok",
        "follow",
        "force",
        "from_version",
        "lenient",
        "master",
        "name",
        "purge",
        "recommit",
        "replace",
        "resume",
        "up_to_version",
    }
)


def advice_for_shell(error: DeltaSqlError) -> str:
    """Return what an error advises, in commands and flags."""
    return for_shell(error.advice)


def for_shell(advice: str) -> str:
    """Return advice with its calls as commands and its arguments as flags."""
    return _SPAN.sub(lambda match: f"`{_worded(match[1])}`", advice)


def _worded(code: str) -> str:
    """Return a command or a flag; what is neither a call nor an argument stays as it is."""
    argument = _ARGUMENT.fullmatch(code)
    if argument and argument[1] in ARGUMENTS:
        return shlex.join(_flag(argument[1], _value(argument[2])))
    call = _CALL.fullmatch(code)
    if call is None or call[1] not in COMMANDS:
        return code
    try:
        arguments = list(_arguments(call[2] or "()"))
    except (SyntaxError, ValueError):  # a name may hold anything
        return code
    shell = COMMANDS[call[1]]
    return shlex.join(["deltasql", *shell.command.split(), *arguments, *shell.flags])


def _arguments(given: str) -> Iterator[str]:
    call = ast.parse(f"f{given}", mode="eval").body
    assert isinstance(call, ast.Call)  # noqa: S101 (by the pattern)
    for value in call.args:
        yield str(ast.literal_eval(value))
    for keyword in call.keywords:
        yield from _flag(keyword.arg or "", ast.literal_eval(keyword.value))


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text) if text else True
    except (SyntaxError, ValueError):
        return text


def _flag(name: str, value: Any) -> list[str]:
    """Return a flag with its value; `conf` has one for each pair."""
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [word for key, one in value.items() for word in (flag, f"{key}={one}")]
    return [flag, str(value)]
