"""The doctor: what is installed, configured and reachable, as rows with a verdict."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, Final, Literal

import click

from deltasql.cli.app import App, command, pass_app
from deltasql.cli.arguments import lag_exit_code
from deltasql.cli.remedies import advice_for_shell
from deltasql.errors import DeltaSqlError
from deltasql.version import __version__

_PACKAGES: Final = ("pyarrow", "obstore", "psycopg", "adbc-driver-sqlite", "adbc-driver-postgresql")

_LAGS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    check: str
    verdict: Literal["ok", "warn", "fail"]
    detail: str
    exit_code: int = 0


@command(example="deltasql doctor -o json")
@pass_app
def doctor(app: App) -> None:
    """Check the installation, the configuration and the catalog.

    Leaves with the exit code of the first check that failed.
    """
    findings = list(_examine(app))
    rows = [asdict(finding) for finding in findings]
    app.out.rows(rows, ["check", "verdict", "detail"])
    code = next((finding.exit_code for finding in findings if finding.verdict == "fail"), 0)
    raise click.exceptions.Exit(code)


def _examine(app: App) -> Iterator[Finding]:
    yield Finding("deltasql", "ok", f"{__version__} on Python {platform.python_version()}")
    yield Finding("packages", "ok", ", ".join(f"{p} {_version(p)}" for p in _PACKAGES))
    yield _try("configuration", lambda: _configuration(app))
    yield _try("uri", lambda: Finding("uri", "ok", str(app.catalog_uri())))
    try:
        with app.connect() as catalog:
            yield Finding("database", "ok", "the catalog answers and its schema is current")
            yield from _tables(catalog)
    except DeltaSqlError as error:
        yield _failed("database", error)


def _try(check: str, examine: Callable[[], Finding]) -> Finding:
    try:
        return examine()
    except DeltaSqlError as error:
        return _failed(check, error)


def _failed(check: str, error: DeltaSqlError) -> Finding:
    return Finding(
        check, "fail", f"{error.code}: {error.message} {advice_for_shell(error)}", error.exit_code
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(missing)"


def _configuration(app: App) -> Finding:
    origins = app.settings().origins
    sources = Counter(source for source in origins.values())
    shown = ", ".join(f"{count} from {source}" for source, count in sorted(sources.items()))
    return Finding("configuration", "ok", shown or "defaults only")


def _tables(catalog: Any) -> Iterator[Finding]:
    tables = catalog.tables()
    states = Counter(str(table.state) for table in tables)
    shown = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield Finding("tables", "warn" if states["conflict"] else "ok", shown or "none")
    yield from _stores(catalog)
    yield _logs(catalog)


def _stores(catalog: Any) -> Iterator[Finding]:
    """Tell which stores do not answer; a local folder is a store of its own."""
    checks = catalog.mirror.check_stores()
    yield Finding("stores", "ok", f"{sum(not check.error for check in checks)} answer")
    for check in checks:
        if check.error is not None:
            failed = _failed("store", check.error)
            detail = f"{check.store} (table {check.table}): {failed.detail}"
            yield Finding("store", "fail", detail, failed.exit_code)


def _logs(catalog: Any) -> Finding:
    """Tell whether every log has what SQL has; a log that waits for a worker is no failure."""
    lags = catalog.mirror.lags()
    if not lags:
        return Finding("logs", "ok", "every log has all versions of SQL")
    text = " ".join(str(lag) for lag in lags[:_LAGS_SHOWN])
    if len(lags) > _LAGS_SHOWN:
        text += f" And {len(lags) - _LAGS_SHOWN} more: see `deltasql mirror status`."
    code = lag_exit_code(lags)
    return Finding("logs", "fail" if code else "warn", text, code)
