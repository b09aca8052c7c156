"""How commands report logs that are behind SQL, and with which exit code they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App
from deltasql.errors import MirrorConflictError, MirrorLagError

if TYPE_CHECKING:
    from deltasql.client.catalog import Catalog
    from deltasql.client.detail import LogLag


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
