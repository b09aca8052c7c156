"""Completion for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from deltasql.cli.app import App, command, pass_app
from deltasql.errors import BadArgumentError


@command(example='eval "$(deltasql completion bash)"', no_args_is_help=True)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_app
def completion(app: App, context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Put the example's line into the shell's start file.
    """
    kind = get_completion_class(shell)
    root = context.find_root().command
    if kind is None:
        raise BadArgumentError(f"There is no completion for {shell}.")
    app.out.raw(kind(root, {}, "deltasql", "_DELTASQL_COMPLETE").source() + "\n")
