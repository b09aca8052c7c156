"""Command lines as they stand in documents, read by the program's own parser, and their output."""

import json
import re
import shlex

from deltasql.cli.app import App
from deltasql.cli.main import cli

SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def parse_command(words: list[str]) -> str:
    """Return the path of the command that `words` call; fails where it would not take them."""
    command, context, rest = cli, None, words
    while True:
        name, *rest = rest
        if context is not None:
            command = command.get_command(context, name)
            assert command is not None, f"no command {name}"
        context = command.make_context(name, rest, parent=context, obj=App())
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if not hasattr(command, "get_command"):
            return context.command_path


def commands_in(text: str) -> list[list[str]]:
    """Return the calls of `deltasql` in the shell blocks of a page."""
    lines = "".join(SHELL.findall(text)).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines]
    return [words for words in found if words[:1] == ["deltasql"]]


def data(done):
    """Return what a command printed as JSON."""
    return json.loads(done.stdout)
