"""The `deltasql` program: the table of commands, global options, completion, how errors are
printed.

A command's module is imported when the command runs: `--help` loads nothing heavy.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import io
import json
import os
import re
import sys
import traceback
from keyword import iskeyword
from pathlib import Path
from typing import Final, NoReturn, cast

import click
from click.shell_completion import get_completion_class

from deltasql.cli.app import App, command, common_options, parse_pairs, pass_app
from deltasql.cli.output import escape
from deltasql.cli.remedies import advice_for_shell
from deltasql.errors import BadArgumentError, DeltaSqlError, OutputError
from deltasql.version import __version__

_OUTPUT_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG}

# what a user typed at the wrong place comes back in click's messages
_NO_COMMAND: Final = re.compile(r"No such command '([^']*)'")
_PASSWORD: Final = re.compile(r"(://[^\s:/@]*:|password=)[^\s&@]+", re.IGNORECASE)


COMMANDS: Final = {
    "alter": ("change", "Add columns to a table or change its properties."),
    "checkpoint": ("mirror", "Write a checkpoint of a table to its log."),
    "compact": ("change", "Rewrite a table's small files into larger ones."),
    "completion": ("main", "Print the completion script of a shell."),
    "create": ("tables", "Create a table."),
    "cutover": ("imports", "Let SQL take over the log of an imported table."),
    "db": ("db", "Create, migrate or look at the catalog's database."),
    "detach": ("change", "Give a table back to ordinary Delta writers."),
    "diff": ("tables", "List the files that came and went between two versions."),
    "doctor": ("doctor", "Check the installation, the configuration and the catalog."),
    "drop": ("tables", "Remove a table from the catalog."),
    "undrop": ("tables", "Bring a dropped table back, with all its versions."),
    "files": ("tables", "List the data files of a table."),
    "fsck": ("mirror", "Compare the log with SQL, for one table or all."),
    "history": ("tables", "List a table's versions: who did what, and when."),
    "import": ("imports", "Import existing Delta tables with their history."),
    "mirror": ("mirror", "Look after the logs: run the worker, verify, repair, pause."),
    "recover": ("mirror", "Bring SQL and the logs together after a loss or a restore."),
    "rename": ("tables", "Give a table another name."),
    "restore": ("change", "Bring a table back to the state of an earlier version."),
    "sample": ("tables", "Print some rows of a table."),
    "show": ("tables", "Describe a table: state, schema, properties."),
    "tables": ("tables", "List the tables of the catalog."),
    "vacuum": ("change", "Delete data files that nothing needs any more."),
    "unfence": ("db", "Free a log for ordinary Delta writers when its database is lost."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module and return the command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"deltasql.cli.{COMMANDS[cmd_name][0]}")
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        return cast("click.Command", getattr(module, name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(
    cls=LazyGroup,
    params=common_options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--profile", metavar="NAME", help="Use this profile of the configuration.")
@click.option("--config", metavar="FILE", help="Read this configuration file and no other.")
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="Override a setting.")
@click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print data and errors only.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Log to stderr; -vv logs more.")
@click.option("--debug", "is_debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--no-color", is_flag=True, help="Print without colour.  [env: NO_COLOR]")
@click.version_option(__version__, "--version", prog_name="deltasql")
@click.pass_context
def cli(
    context: click.Context,
    *,
    profile: str | None,
    config: str | None,
    pairs: tuple[str, ...],
    is_quiet: bool,
    verbosity: int,
    is_debug: bool,
    no_color: bool,
) -> None:
    """Delta Lake tables with SQL as the source of truth."""
    app = context.ensure_object(App)
    app.overrides = {**parse_pairs(pairs, "--set"), "profile": profile, "config": config}
    app.is_quiet, app.is_debug, app.has_color = is_quiet, is_debug, not no_color
    if verbosity:
        app.log_to_stderr(verbosity)


def main() -> NoReturn:
    """Run the program and leave with the exit code of what happened."""
    app = App()
    _prepare_streams()
    try:
        result = cli.main(_arguments(), prog_name="deltasql", standalone_mode=False, obj=app)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stdout.write(f"{error.format_message()}\n")
        result = 0
    except click.ClickException as error:
        sys.exit(_tell(_as_ours(error), app))
    except DeltaSqlError as error:
        sys.exit(_tell(error, app))
    except OSError as error:
        sys.exit(_tell(_output_error(error) or _unexpected(error), app))
    except Exception as error:  # noqa: BLE001 (the last door: no traceback reaches a user)
        sys.exit(_tell(_unexpected(error), app))
    sys.exit(result if isinstance(result, int) else 0)


def _tell(error: DeltaSqlError, app: App) -> int:
    if app.output != "text":
        sys.stderr.write(_PASSWORD.sub(r"\1***", _as_json(error)) + "\n")
        if app.is_debug:
            traceback.print_exception(error)
        return error.exit_code
    text = f"error[{error.code}]: {escape(' '.join(error.message.split()))}\n"
    if advice := advice_for_shell(error):
        text += f"\nhint: {advice}\n"
    if app.is_debug:
        text += "\n" + "".join(traceback.format_exception(error))
    sys.stderr.write(_PASSWORD.sub(r"\1***", text))
    return error.exit_code


def _as_json(error: DeltaSqlError) -> str:
    facts = {
        "code": error.code,
        "message": " ".join(error.message.split()),
        "hint": advice_for_shell(error),
        "retryable": error.retryable,
        "exit_code": error.exit_code,
    }
    return json.dumps({"error": facts})


def _prepare_streams() -> None:
    """Let every text be printed: what the encoding lacks is escaped, a closed stream is nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the end)
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _arguments() -> list[str]:
    """Return the arguments as UTF-8, whatever the locale says they are."""
    given = [os.fsencode(argument) for argument in sys.argv[1:]]
    return [argument.decode("utf-8", "surrogateescape") for argument in given]


def _output_error(error: OSError) -> DeltaSqlError | None:
    """Return the error of an output that takes no more; None if it is of something else."""
    if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
        return None
    # what is still in the buffer would fail again when the process ends: it goes nowhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    found = OutputError(f"The output could not be written: {os.strerror(error.errno)}.")
    return found.with_traceback(error.__traceback__)


def _as_ours(error: click.ClickException) -> DeltaSqlError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "deltasql"
    meant = _suggestion(error)
    hint = f"Did you mean {meant}? See `{command} --help`." if meant else None
    message = " ".join(error.format_message().split())
    told = BadArgumentError(message, hint=hint or f"See `{command} --help`.")
    return told.with_traceback(error.__traceback__)


def _suggestion(error: click.ClickException) -> str | None:
    """Return the command or option that a misspelt one was meant for; None if none is near."""
    if isinstance(error, click.NoSuchOption):
        near = list(error.possibilities or ())
        return near[0] if near else None
    unknown = _NO_COMMAND.match(error.message)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if unknown is None or context is None or not isinstance(context.command, click.Group):
        return None
    names = context.command.list_commands(context)
    return next(iter(difflib.get_close_matches(unknown[1], names, n=1)), None)


def _unexpected(error: Exception) -> DeltaSqlError:
    # its text may hold anything, a connection string too: only --debug shows it
    told = DeltaSqlError(
        f"Something failed that deltasql did not expect: {type(error).__name__}.",
        hint="Run the command again with --debug and report what it prints.",
    )
    told.__cause__ = error
    return told


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
