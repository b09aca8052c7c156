"""What every command shares: where the catalog is, the settings, the output, the confirmation."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from deltasql.cli.output import Format, Output
from deltasql.errors import BadArgumentError, ConfigError

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog
    from deltasql.events import Sink
    from deltasql.settings import Settings
    from deltasql.uri import CatalogUri


_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_KNOWN = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class JsonLines(logging.Formatter):
    """One JSON object per record, with the fields of its event; `error_code` where it has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        fields = {key: value for key, value in vars(record).items() if key not in _KNOWN}
        base = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "text": record.getMessage(),
        }
        return json.dumps({**base, **fields}, default=str, ensure_ascii=False)


def start_logging(stream: TextIO, verbosity: int, *, as_json: bool) -> None:
    """Let the package log to a stream: warnings at 0, what it does at 1, everything above."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(_TEXT))
    logging.basicConfig(handlers=[handler])
    levels = {0: logging.WARNING, 1: logging.INFO}
    logging.getLogger("deltasql").setLevel(levels.get(verbosity, logging.DEBUG))


@dataclass(slots=True)
class App:
    """The options that stand before or after the command's name."""

    uri: str | None = None
    output: Format = "text"
    overrides: dict[str, object] = field(default_factory=dict)
    is_quiet: bool = False
    has_color: bool = True
    is_debug: bool = False

    @property
    def out(self) -> Output:
        """The port that commands print through."""
        is_colored = self.has_color and not os.environ.get("NO_COLOR")
        return Output(sys.stdout, sys.stderr, self.output, self.is_quiet, is_colored)

    def settings(self) -> Settings:
        """Return the settings of flags, environment and files."""
        from deltasql.settings import Settings

        return Settings.load(os.environ, Path.cwd(), {**self.overrides, "uri": self.uri})

    def catalog_uri(self) -> CatalogUri:
        """Return the URI that the options, the environment or the configuration name."""
        from deltasql.uri import parse_uri

        return parse_uri(_named(self.settings()))

    def connect(self, sink: Sink | None = None) -> Catalog:
        """Return the catalog that the options, the environment or the configuration name.

        Raises:
            SchemaMissingError: it is not there.
        """
        import deltasql

        settings = self.settings()
        there = replace(settings, sql=replace(settings.sql, schema="error"))
        return deltasql.connect(_named(settings), settings=there, sink=sink)

    def connect_to_create(self) -> Catalog:
        """Return the catalog for a command that creates something; it may create the catalog."""
        import deltasql

        settings = self.settings()
        catalog = deltasql.connect(_named(settings), settings=settings)
        try:
            catalog.create_if_missing()
        except BaseException:
            catalog.close()
            raise
        return catalog

    def look(self) -> AbstractContextManager[Catalog]:
        """Return the catalog to look at; where there is none, an empty one that goes again."""
        from deltasql.api.imports import catalog_to_look_at

        settings = self.settings()
        return catalog_to_look_at(_named(settings), self.catalog_uri(), settings)

    def has_catalog(self) -> bool:
        """Tell whether the catalog is there, without making it."""
        from deltasql.api.imports import has_catalog

        return has_catalog(self.catalog_uri())

    def table_name(self, name: str | None) -> str:
        """Return the table that the argument or the URI names."""
        found = name or self.catalog_uri().table
        if not found:
            raise BadArgumentError("No table is named: give it as an argument or in the URI.")
        return found

    def log_to_stderr(self, verbosity: int) -> None:
        """Let the package log: warnings at 0, what it does at 1, everything above.

        With `-o json` or `ndjson` each line is a JSON object with the fields of its event.
        """
        start_logging(sys.stderr, verbosity, as_json=self.output != "text")

    def confirm(self, question: str, *, is_sure: bool, has_way_back: bool = False) -> None:
        """Ask before something that cannot be undone; without a terminal `--yes` must answer.

        What has a way back is asked for on a terminal only.
        """
        if is_sure or (has_way_back and not sys.stdin.isatty()):
            return
        if not sys.stdin.isatty():
            raise BadArgumentError(
                f"{question} Pass --yes to answer yes.",
                hint="Nothing was done: there is no terminal to ask on.",
            )
        if not click.confirm(question, err=True):
            self.out.note("Nothing was done.")
            raise click.exceptions.Exit(1)


def _named(settings: Settings) -> str:
    if not settings.uri:
        raise ConfigError(
            "No catalog is named.",
            hint="Pass --uri, set DELTASQL_URI, or write `uri = …` into deltasql.toml.",
        )
    return settings.uri


def _set_uri(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(App).uri = value


def _set_output(context: click.Context, _: click.Parameter, value: Format | None) -> None:
    if value is not None:
        context.ensure_object(App).output = value


def common_options(*, is_hidden: bool = False) -> list[click.Parameter]:
    """Return the options that may stand before or after the command's name."""
    return [
        click.Option(
            ["--uri", "-u"],
            metavar="URI",
            help="The catalog, such as deltasql://sqlite/metadata.db  [env: DELTASQL_URI]",
            callback=_set_uri,
            expose_value=False,
            hidden=is_hidden,
        ),
        click.Option(
            ["--output", "-o"],
            type=click.Choice(["text", "json", "ndjson"]),
            help="How to print data.  [default: text]",
            callback=_set_output,
            expose_value=False,
            hidden=is_hidden,
        ),
    ]


class Command(click.Command):
    """A command that takes the common options too, and shows its example."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += common_options(is_hidden=True)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example after the options, unwrapped so that it can be copied."""
        super().format_epilog(ctx, formatter)
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def command(
    example: str, *, no_args_is_help: bool = False
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command; its docstring is the help."""
    return click.command(cls=Command, example=example, no_args_is_help=no_args_is_help)


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return repeated KEY=VALUE options as a mapping.

    Raises:
        BadArgumentError: one has no equals sign or is given twice; the message holds no value.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise BadArgumentError(f"{option} takes KEY=VALUE.")
        if key in found:
            raise BadArgumentError(f"{option} gives {key} twice.")
        found[key] = value
    return found


pass_app = click.make_pass_decorator(App)
