"""Arguments that several commands share, parsed into values at the door, and reports of logs
behind SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deltasql.cli.app import App
from deltasql.errors import BadArgumentError, MirrorConflictError, MirrorLagError
from deltasql.settings import parse_duration

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog
    from deltasql.api.detail import LogLag
    from deltasql.protocol.schema.types import StructField, StructType

F = TypeVar("F", bound=Callable[..., Any])

# SQL's spellings beside Delta's
_SQL_NAMES = {
    "bigint": "long",
    "bool": "boolean",
    "int": "integer",
    "real": "float",
    "smallint": "short",
    "text": "string",
    "tinyint": "byte",
}
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

table_argument = click.argument("table", required=False)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Tell what would be done, and do nothing."
)
yes_option = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
follow_option = click.option(
    "--follow", is_flag=True, help="Bring a read-only import to the head of its log first."
)
where_option = click.option("--where", metavar="FILTER", help="Only what this filter matches.")


class Instant(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A time in ISO 8601; without an offset it is UTC."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time with its offset."""
        if isinstance(value, datetime):
            return value
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value} is no time such as 2026-01-31T12:00:00Z.", param, ctx)
        return found if found.tzinfo else found.replace(tzinfo=UTC)


class Size(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A number of bytes, such as 128MB or 64MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        match = re.fullmatch(r"(\d{1,12})\s*([kmg]i?b)?", str(value).lower())
        if match is None or int(match[1]) == 0:
            self.fail(f"{value} is no size such as 128MB.", param, ctx)
        return int(match[1]) * _UNITS[match[2] or ""]


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A length of time, such as 90m, 240h or 14d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the length."""
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{value} is no {str(error).removeprefix('a ')}.", param, ctx)


def at_options(function: F) -> F:
    """Add --version and --timestamp: which state of the table is meant."""
    version = click.option("--version", type=click.IntRange(min=0), help="As of this version.")
    when = click.option("--timestamp", type=Instant(), help="As of this time (ISO 8601).")
    return version(when(function))


def check_at(version: int | None, timestamp: datetime | None) -> None:
    """Refuse two answers to one question."""
    if version is not None and timestamp is not None:
        raise BadArgumentError("Give --version or --timestamp, not both.")


def parse_column(text: str) -> StructField:
    """Return the column that NAME:TYPE or "NAME:TYPE not null" describes.

    Raises:
        BadArgumentError: there is no colon.
        SchemaError: the type is unknown.
    """
    from deltasql.protocol.schema.types import StructField, parse_type_name

    name, colon, rest = text.rpartition(":")
    if not colon or not name:
        raise BadArgumentError(f"The column {text!r} is not written NAME:TYPE.")
    kind = re.sub(r"\s+not\s+null$", "", rest.strip().lower())
    is_nullable = kind == rest.strip().lower()
    return StructField(name, parse_type_name(_SQL_NAMES.get(kind, kind), name), is_nullable)


def read_schema(file: str) -> StructType:
    """Return the schema of a Parquet file, or of a JSON file as Delta writes it.

    Raises:
        BadArgumentError: the file cannot be read.
    """
    from deltasql.protocol.schema.types import parse_schema

    try:
        if file.endswith(".parquet"):
            return _parquet_schema(file)
        text = Path(file).read_text(encoding="utf-8")
        json.loads(text)
    except (OSError, ValueError):
        raise BadArgumentError(f"{file} is no readable Parquet or JSON file.") from None
    return parse_schema(text)


def _parquet_schema(file: str) -> StructType:
    import pyarrow.parquet as pq

    from deltasql.protocol.schema.arrow import from_arrow_schema

    return from_arrow_schema(pq.read_schema(file))


def lag_facts(lags: Sequence[LogLag]) -> dict[str, Any]:
    """Return what machines read of logs that are behind; nothing where none is."""
    return {"behind": [asdict(lag) for lag in lags]} if lags else {}


def report_lags(app: App, lags: Sequence[LogLag]) -> None:
    """Print a warning for each log that is behind; leave with 4 or 6 where one cannot follow."""
    for lag in lags:
        app.out.warn(str(lag))
    code = lag_exit_code(lags)
    if code:
        raise click.exceptions.Exit(code)


def lag_exit_code(lags: Sequence[LogLag]) -> int:
    """Return 4 where a log is in conflict, 6 where one could not be written, else 0."""
    states = {lag.state for lag in lags}
    if "conflict" in states:
        return MirrorConflictError.exit_code
    return MirrorLagError.exit_code if "failing" in states else 0


def warn_of_lag(app: App, catalog: Catalog, name: str) -> None:
    """After a write: say that its log did not follow, unless that is a worker's to do."""
    lag = catalog.mirror.lag(name)
    if lag is not None and (
        lag.state != "waiting" or catalog.mirror.status(name)["mode"] != "worker"
    ):
        app.out.warn(f"{lag} The commit is safe in SQL.")
