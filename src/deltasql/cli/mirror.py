"""Commands on mirrors: mirror run, status, verify, repair, pause, resume; checkpoint."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App, Command, command, pass_app
from deltasql.cli.arguments import (
    dry_run_option,
    lag_facts,
    report_lags,
    table_argument,
    yes_option,
)
from deltasql.cli.remedies import for_shell
from deltasql.errors import BadArgumentError, DeltaSqlError

if TYPE_CHECKING:
    from deltasql.api.catalog import Catalog

_DIFFERENCE = 3


@click.group()
def mirror() -> None:
    """Look after the logs: run the worker, verify, repair, pause."""


@mirror.command(cls=Command, example="deltasql mirror run --listen 127.0.0.1:9464")
@click.option("--once", is_flag=True, help="Mirror what is behind, then leave.")
@click.option("--listen", metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics there.")
@pass_app
def run(app: App, *, once: bool, listen: str | None) -> None:
    """Mirror every table of the catalog until told to stop.

    SIGTERM or Ctrl-C ends it after the batches under way; a hard kill does no harm. Any number of
    workers may run. With --once it exits with code 6 if any version could not be mirrored, and
    with code 4 if a log holds another commit than SQL.
    """
    from deltasql.events import fan_out
    from deltasql.sinks import logging_sink, prometheus_sink

    with app.connect(sink=fan_out(logging_sink(), prometheus_sink())) as catalog:
        if once:
            swept = catalog.mirror.run_once()
            lags = catalog.mirror.lags()
            facts = {
                "behind": swept.behind,
                "mirrored": swept.mirrored,
                "failed": swept.failed,
                "missing_rows": swept.missing_rows,
                "logs_behind": [asdict(lag) for lag in lags],
            }
            app.out.done(f"{swept.mirrored} versions were mirrored.", facts)
            report_lags(app, lags)
            if swept.failed:
                raise click.exceptions.Exit(6)
            return
        if not logging.getLogger().handlers:
            app.log_to_stderr(0)  # a worker whose alerts nobody hears would be worse than none
        stop = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
        app.out.note("The worker runs; SIGTERM stops it.")
        catalog.mirror.run(
            stop,
            listen=_address(listen),
            on_listen=lambda address: app.out.note(f"Health and metrics: http://{address}/"),
        )
    app.out.note("The worker has stopped.")


@mirror.command(cls=Command, example="deltasql mirror status orders -o json")
@click.argument("table", required=False)
@pass_app
def status(app: App, table: str | None) -> None:
    """Tell how far the logs have followed SQL, for one table or all.

    Asks each store for a small object and warns of those that do not answer.
    """
    with app.connect() as catalog:
        names = [table] if table else [info.name for info in catalog.tables()]
        rows = [{"table": name, **catalog.mirror.status(name)} for name in names]
        checks = catalog.mirror.check_stores(table)
    columns = ["table", "status", "mirrored_through", "lag_versions", "lag_seconds"]
    columns += ["verified_at", "findings", "error"]
    app.out.rows(rows, columns)
    for check in checks:
        if check.error is not None:
            reason = f"{check.error.code}: {check.error.message}"
            app.out.warn(f"The store {check.store} cannot be used: {reason}")


_data_files_option = click.option(
    "--data-files", is_flag=True, help="Also compare the sizes of the live data files."
)


@mirror.command(cls=Command, example="deltasql mirror verify orders --data-files")
@click.argument("table", required=False)
@_data_files_option
@pass_app
def verify(app: App, table: str | None, *, data_files: bool) -> None:
    """Compare the log with SQL, byte by byte, for one table or all.

    With --data-files it also lists the store and compares the size of every live data file with
    the recorded one. Exits with code 3 if anything differs, with 6 if a log is behind SQL because
    it could not be written.
    """
    _verify(app, table, data_files=data_files)


@command(example="deltasql fsck --data-files")
@click.argument("table", required=False)
@_data_files_option
@pass_app
def fsck(app: App, table: str | None, *, data_files: bool) -> None:
    """Compare the log with SQL, for one table or all.

    The same as `deltasql mirror verify`: changes nothing, exits with code 3 if anything differs and
    with 6 if a log could not be written.
    """
    _verify(app, table, data_files=data_files)


def _verify(app: App, table: str | None, *, data_files: bool) -> None:
    rows: list[dict[str, Any]] = []
    with app.connect() as catalog:
        names = [table] if table else _own_names(catalog)
        for name in names:
            found = catalog.mirror.verify(name, data_files=data_files)
            rows += [_finding(name, one) for one in found]
        lags = [lag for lag in map(catalog.mirror.lag, names) if lag is not None]
    if not rows:
        what = "logs with their data files" if data_files else "logs"
        facts = {"tables": len(names), "findings": 0, **lag_facts(lags)}
        even = len(names) - len(lags)
        app.out.done(
            f"{even} {what} are equal to SQL." if even else "No version in the log differs.", facts
        )
        report_lags(app, lags)
        return
    app.out.rows(rows, ["table", "difference", "key", "detail", "action"])
    for lag in lags:
        app.out.warn(str(lag))
    raise click.exceptions.Exit(_DIFFERENCE)


@mirror.command(cls=Command, example="deltasql mirror repair orders --dry-run")
@table_argument
@click.option("--version", "version", type=int, help="Repair this version only.")
@click.option("--replace", is_flag=True, help="Put SQL's commits; keep foreign ones aside.")
@click.option(
    "--recommit", is_flag=True, help="Like --replace, and commit foreign commits above SQL's."
)
@click.option("--adopt", is_flag=True, help="Take in foreign commits above SQL's newest version.")
@dry_run_option
@yes_option
@pass_app
def repair(
    app: App,
    *,
    table: str | None,
    version: int | None,
    replace: bool,
    recommit: bool,
    adopt: bool,
    dry_run: bool,
    is_sure: bool,
) -> None:
    """Make a table's log equal to SQL again and retry what has failed.

    Puts what is missing and rebuilds checkpoints. Foreign commits stay until you decide. If SQL has
    commits of the same numbers, those keep them: --replace puts SQL's commits and keeps the foreign
    ones aside, --recommit also commits the foreign ones as new versions, or refuses and changes
    nothing. Without either, the plan for both is shown. --adopt is for foreign commits above SQL's
    newest version.
    Exits with code 3 if something is left to decide, 4 if --recommit or --adopt is refused, 6 if
    the log still cannot be written.
    """
    name = app.table_name(table)
    if replace and not dry_run:
        app.confirm(f"Replace foreign commits in the log of {name}?", is_sure=is_sure)
    with app.connect() as catalog:
        if recommit and not (replace or adopt or dry_run or is_sure):
            _confirm_recommit(app, catalog, name)
        done = catalog.mirror.repair(
            name,
            version=version,
            replace=replace,
            recommit=recommit,
            adopt=adopt,
            dry_run=dry_run,
        )
        lag = catalog.mirror.lag(name)
    lags = [lag] if lag else []
    rows = [
        {
            **_finding(name, one.finding),
            "done": one.done and not dry_run,
            "what": for_shell(one.what),
        }
        for one in done
    ]
    if rows:
        app.out.rows(rows, ["table", "difference", "key", "done", "what"])
    else:
        text = "No version in the log differs." if lags else f"The log of {name} is equal to SQL."
        app.out.done(text, {"table": name, "findings": 0, **lag_facts(lags)})
    if any(not one.done for one in done):
        raise click.exceptions.Exit(_DIFFERENCE)
    if not (rows and dry_run):  # a plan says what will help
        report_lags(app, lags)


@mirror.command(cls=Command, example="deltasql mirror pause orders")
@table_argument
@pass_app
def pause(app: App, table: str | None) -> None:
    """Let a table's log rest: commits go on in SQL."""
    name = app.table_name(table)
    with app.connect() as catalog:
        catalog.mirror.pause(name)
    app.out.done(f"The mirror of {name} rests.", {"table": name, "paused": True})


@mirror.command(cls=Command, example="deltasql mirror resume orders")
@table_argument
@pass_app
def resume(app: App, table: str | None) -> None:
    """Let a table's log follow SQL again."""
    name = app.table_name(table)
    with app.connect() as catalog:
        catalog.mirror.resume(name)
    app.out.done(f"The mirror of {name} goes on.", {"table": name, "paused": False})


@mirror.command(cls=Command, example="deltasql mirror cleanup orders --dry-run")
@table_argument
@dry_run_option
@pass_app
def cleanup(app: App, table: str | None, *, dry_run: bool) -> None:
    """Remove expired files of a table's log, up to a verified checkpoint.

    By delta.logRetentionDuration and delta.enableExpiredLogCleanup. SQL keeps the whole history.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        keys = catalog.mirror.cleanup(name, dry_run=dry_run)
    app.out.rows([{"table": name, "key": key, "removed": not dry_run} for key in keys])


@command(example="deltasql checkpoint orders")
@table_argument
@click.option("--version", "version", type=int, help="The version; the newest in the log if none.")
@pass_app
def checkpoint(app: App, table: str | None, version: int | None) -> None:
    """Write a checkpoint of a table to its log."""
    name = app.table_name(table)
    with app.connect() as catalog:
        written = catalog.mirror.checkpoint(name, version)
    app.out.done(f"{name} has a checkpoint at {written}.", {"table": name, "version": written})


@command(example="deltasql recover orders --yes")
@click.argument("table", required=False)
@click.option(
    "--from-log", metavar="LOCATION", help="Bring TABLE back from its log: its database is lost."
)
@click.option(
    "--accept-differences",
    is_flag=True,
    help="With --from-log: take the table though it differs from its log.",
)
@yes_option
@pass_app
def recover(
    app: App, table: str | None, *, from_log: str | None, accept_differences: bool, is_sure: bool
) -> None:
    """Bring SQL and the logs together after a loss or a restore.

    For a restored backup or a cloned database (the log is ahead of SQL: its commits are adopted),
    for a log that was lost (it is rebuilt from SQL) and, with --from-log, for a database that was
    lost. A new epoch fences off every other process and copy of the catalog. With --from-log, what
    was read is compared with the log, and a run that was cut short goes on. Exits with code 4 if
    both sides have another commit, and with 3 if --from-log found a difference.
    """
    if from_log is not None:
        name = app.table_name(table)
        question = f"Make {name} of the log at {from_log}? Its old database is shut out for good."
        app.confirm(question, is_sure=is_sure)
        _rebuild(app, name, from_log, accept_differences=accept_differences)
        return
    if accept_differences:
        raise BadArgumentError("--accept-differences needs --from-log.")
    app.confirm("Begin a new epoch? Other processes must be restarted.", is_sure=is_sure)
    with app.connect() as catalog:
        catalog.new_epoch()
    rows: list[dict[str, Any]] = []
    trouble: DeltaSqlError | None = None
    with app.connect() as catalog:
        for name in [table] if table else _own_names(catalog):
            try:
                rows.append(asdict(catalog.mirror.recover(name)))
            except DeltaSqlError as error:
                trouble = error
                rows.append({"table": name, "what": error.message})
    app.out.rows(rows, ["table", "version", "adopted", "put", "what"])
    if trouble is not None:
        raise trouble


def _rebuild(app: App, name: str, location: str, *, accept_differences: bool) -> None:
    with app.connect_to_create() as catalog:
        rebuilt = catalog.mirror.rebuild(name, location, accept_differences=accept_differences)
    app.out.rows([asdict(rebuilt)], ["table", "first", "version", "unreachable", "what"])


def _own_names(catalog: Catalog) -> list[str]:
    """Return the tables whose logs SQL writes; an import's log is compared by the import."""
    others = {"read_only", "detached"}
    return [info.name for info in catalog.tables() if info.state not in others]


def _confirm_recommit(app: App, catalog: Catalog, name: str) -> None:
    """Show which foreign commit becomes which version, and ask; a refusal needs no question."""
    plan = catalog.mirror.repair(name, recommit=True, dry_run=True)
    if plan and all(one.done for one in plan):
        for one in plan:
            app.out.note(f"{one.finding.key}: {for_shell(one.what)}.")
        app.confirm(f"Commit the foreign commits of {name} again and replace them?", is_sure=False)


def _finding(name: str, found: Any) -> dict[str, Any]:
    return {
        "table": name,
        "difference": str(found.difference),
        "key": found.key,
        "version": found.version,
        "detail": found.detail,
        "action": for_shell(found.action),
    }


def _address(listen: str | None) -> tuple[str, int] | None:
    if listen is None:
        return None
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise BadArgumentError("--listen takes HOST:PORT, such as 127.0.0.1:9464.")
    return host, int(port)
