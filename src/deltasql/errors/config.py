"""A setting, an option or a URI is wrong."""

from __future__ import annotations

from deltasql.errors.base import DeltaSqlError


class ConfigError(DeltaSqlError, ValueError):
    """A setting, option or URI is wrong."""

    code = "DS100"
    exit_code = 2
    hint = "Check the setting's name and value in the settings reference."


class BadUriError(ConfigError):
    """The URI is not one that deltasql understands."""

    code = "DS101"
    hint = "Use deltasql://sqlite/<file>, deltasql://postgres/<database>/<schema> or postgresql://…"


class MissingExtraError(ConfigError):
    """An optional package is not installed."""

    code = "DS102"
    hint = "Install the package that the message names."


class BadArgumentError(ConfigError):
    """An argument has a value that cannot be used."""

    code = "DS103"
    hint = "See the documentation of the command or the function."


class OutputError(DeltaSqlError):
    """What a command prints could not be written."""

    code = "DS105"
    hint = "What the command did is done; only its output is lost. Check the disk or the pipe."


class ListenError(ConfigError):
    """The address to listen on is taken, or not one of this machine."""

    code = "DS104"
    hint = "Choose another address to listen on, or stop the program that has it."


class PoolModeError(ConfigError):
    """PostgreSQL was reached through a connection pool that shares server sessions."""

    code = "DS106"
    hint = (
        "Connect to PostgreSQL directly, or to a pool in session mode (PgBouncer: "
        "pool_mode = session)."
    )
