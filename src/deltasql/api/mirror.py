"""How the logs of a catalog follow SQL: look, pause, verify, repair, and the worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltasql.api.detail import LogLag, log_lag, mirror_detail
from deltasql.api.session import LazySession, Session
from deltasql.errors import (
    BadArgumentError,
    ConfigError,
    DeltaSqlError,
    LeaseLostError,
    VersionNotFoundError,
)
from deltasql.events import Sink
from deltasql.maintenance.log_cleanup import LogCleanup
from deltasql.maintenance.recover import Recovered, Recovery
from deltasql.maintenance.repair import Decision, MirrorRepair
from deltasql.maintenance.settlement import Repaired, Settlement
from deltasql.metastore.log_state import require_own_log
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.compare import Finding, compare_data_files
from deltasql.mirror.object_tags import ObjectTags
from deltasql.mirror.queue import mirror_mode
from deltasql.mirror.worker.alerts import (
    AlertDesk,
    BackgroundSink,
    Sweep,
    command_alerts,
    log_alerts,
    webhook_alerts,
)
from deltasql.mirror.worker.health import Health, HealthServer
from deltasql.mirror.worker.limits import RateLimiter, WorkSignal, store_of
from deltasql.mirror.worker.periodic_verify import PeriodicVerify, VerifySources
from deltasql.mirror.worker.reconciler import MirrorReconciler, ReconciliationConfig
from deltasql.mirror.worker.store_watch import ask_stores, stores_of
from deltasql.runtime.connection import Connection
from deltasql.settings import AlertSettings

if TYPE_CHECKING:
    from deltasql.imports.load.loader import LogAdopter
    from deltasql.maintenance.rebuild import Rebuilt

_SILENT_S = 30.0

_WAIT_S = 60.0
_MIRRORED = frozenset({TableState.ACTIVE, TableState.CONFLICT})


def make_reconciler(
    session: Session, repair: MirrorRepair, config: ReconciliationConfig | None = None
) -> MirrorReconciler:
    """Return a reconciler over a catalog, with its limits, hints and comparisons."""
    chosen = session.connection.settings.mirror
    session.mirroring.checkpoints.rate = RateLimiter.per_minute(chosen.max_checkpoints_per_minute)
    made = MirrorReconciler(
        session.mirroring.engine,
        session.mirroring.engine.tracker,
        session.mirroring.checkpoints,
        config or ReconciliationConfig.of(chosen),
        session.connection.settings,
        AlertDesk(
            [session.connection.emit, *alert_sinks(session.connection.settings.alerts)],
            catalog=session.connection.metastore.identity.catalog_id,
            worker=session.connection.leases.holder,
        ),
        puts=RateLimiter.per_second(chosen.max_puts_per_second),
        wakes=WorkSignal(session.connection.metastore.database.watch_commits),
        sink=session.connection.emit,
        clock=session.connection.now_ms,
    )
    if chosen.verify_interval:
        made.verify = _verify(session, repair, made)
    return made


def _verify(session: Session, repair: MirrorRepair, worker: MirrorReconciler) -> PeriodicVerify:
    sources = VerifySources(
        session.connection.metastore.tables,
        session.connection.metastore.table_by_id,
        repair.verify,
        session.mirroring.verifications,
        session.connection.leases,
        ObjectTags(session.connection.metastore.database),
    )
    return PeriodicVerify(
        sources,
        session.connection.settings.mirror.verify_interval,
        is_wanted=lambda row: _is_verified(session, row),
        is_store_up=lambda row: store_of(row.location) not in worker.stores_down(),
        desk=worker.desk,
        sink=session.connection.emit,
    )


def _is_verified(session: Session, row: TableRow) -> bool:
    """A table that is mirrored at all; its own property can switch the comparison off."""
    try:
        chosen = session.connection.settings_of(row).mirror
    except ConfigError:
        return True  # the reconciler reports the bad property; the table is verified all the same
    return mirror_mode(session.connection, row) != "off" and bool(chosen.verify_interval)


def health_of(reconciler: MirrorReconciler) -> Health:
    """Return the health report of a worker."""
    from prometheus_client import REGISTRY, generate_latest  # noqa: PLC0415 (workers only)

    def is_ready() -> bool:
        last = reconciler.last_poll_at
        return last is not None and reconciler.monotonic() - last < _SILENT_S

    def facts() -> dict[str, object]:
        return {"stores_down": reconciler.stores_down(), "store_errors": reconciler.stores.errors()}

    return Health(is_ready, facts, lambda: generate_latest(REGISTRY))


def alert_sinks(settings: AlertSettings) -> Sequence[Sink]:
    """Return where alerts go: always the log, and what the settings name.

    Raises:
        ConfigError: a webhook or a command is not usable.
    """
    sinks: list[Sink] = [log_alerts]
    try:
        if settings.webhook:
            sinks.append(BackgroundSink(webhook_alerts(settings.webhook)))
        if settings.command:
            sinks.append(BackgroundSink(command_alerts(settings.command)))
    except ValueError as error:
        raise ConfigError(f"Alerts cannot be sent: {error}.") from error
    return sinks


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What a store answered when it was asked for the owner marker of `table`."""

    store: str
    table: str
    error: DeltaSqlError | None


class Mirror:
    """The mirrors of one catalog."""

    def __init__(self, lazy: LazySession) -> None:
        self._lazy = lazy

    @property
    def _session(self) -> Session:
        return self._lazy.session

    @property
    def _connection(self) -> Connection:
        return self._session.connection

    def status(self, name: str) -> dict[str, Any]:
        """Return how far a table's log has followed, and what holds it up."""
        return mirror_detail(self._session, self._connection.metastore.table(name).table_id)

    def lag(self, name: str) -> LogLag | None:
        """Return how far a table's log is behind SQL and why; None where it has every version."""
        return log_lag(self._session, self._connection.metastore.table(name))

    def lags(self) -> list[LogLag]:
        """Return every log of this catalog that is behind SQL."""
        rows = [row for row in self._connection.metastore.tables() if row.state in _MIRRORED]
        lags = [log_lag(self._session, row) for row in rows]
        return [lag for lag in lags if lag is not None]

    def check_stores(self, name: str | None = None) -> list[StoreCheck]:
        """Ask every store that holds tables, or that of one table; changes nothing.

        Each store is asked once, by one of its tables; a local folder is a store of its own.
        """
        metastore = self._connection.metastore
        rows = [metastore.table(name)] if name is not None else metastore.tables()
        stores = stores_of(row for row in rows if row.state in _MIRRORED)
        answers = ask_stores(stores, self._connection.store_of)
        return [StoreCheck(one, stores[one].full_name, answers[one]) for one in sorted(stores)]

    def pause(self, name: str) -> None:
        """Let a table's mirror rest: commits go on in SQL, the log stays as it is."""
        self._connection.metastore.set_paused(
            self._connection.metastore.table(name).table_id, paused=True
        )

    def resume(self, name: str) -> None:
        """Let a table's mirror go on; what was committed meanwhile follows in order."""
        self._connection.metastore.set_paused(
            self._connection.metastore.table(name).table_id, paused=False
        )

    def checkpoint(self, name: str, version: int | None = None) -> int:
        """Write a checkpoint of a mirrored version, the newest by default; return the version.

        Raises:
            CheckpointError: the version is not in the log, or the file did not come out right.
        """
        session = self._session
        row = self._own(name)
        wanted = row.mirrored_through if version is None else version
        codec = session.connection.settings_of(row).mirror.checkpoint_codec
        deadline = time.monotonic() + _WAIT_S
        while session.mirroring.checkpointer.write(row, wanted, codec=codec) is None:
            if time.monotonic() >= deadline:
                raise LeaseLostError(f"Another worker writes a checkpoint of {name} all the time.")
            time.sleep(0.1)
        return wanted

    def verify(self, name: str, *, data_files: bool = False) -> list[Finding]:
        """Return how a table's log differs from SQL; an empty list means that they are equal.

        `data_files` also compares the sizes of the live data files with the recorded ones.
        """
        row = self._connection.metastore.table(name)
        if row.state is not TableState.DETACHED:  # what was given back can still be compared
            require_own_log(row)
        found = self._repair().verify(row)
        if data_files:
            session = self._session
            found += compare_data_files(
                session.connection.metastore, row, session.connection.store_of(row)
            )
        return found

    def repair(
        self,
        name: str,
        *,
        version: int | None = None,
        replace: bool = False,
        recommit: bool = False,
        adopt: bool = False,
        dry_run: bool = False,
    ) -> list[Repaired]:
        """Make a table's log equal to SQL again.

        Where the log holds a foreign commit under a number that SQL has given out, `replace` puts
        SQL's commit and keeps the foreign one aside; `recommit` also commits the foreign one as a
        new version of SQL. `adopt` takes in foreign commits above SQL's newest version. `dry_run`
        returns the plan.

        Raises:
            VersionNotFoundError: the table has no such version.
            RecommitError: a foreign commit cannot be committed again; nothing was changed.
            MirrorConflictError: contested commits cannot be adopted; nothing was changed.
        """
        decision = _decision(replace=replace, recommit=recommit, adopt=adopt)
        row = self._own(name)
        if version is not None and not 0 <= version <= row.current_version:
            raise VersionNotFoundError(
                f"Table {row.full_name} has no version {version}; it is at {row.current_version}.",
                table=row.full_name,
                version=version,
            )
        if dry_run:
            return self._repair().plan(row, decision, version=version)
        done = self._repair().repair(row, decision, version=version)
        self._session.mirroring.engine.catch_up(row.table_id, seconds=60.0)
        return done

    def cleanup(self, name: str, *, dry_run: bool = False) -> tuple[str, ...]:
        """Remove expired files of a table's log and return their keys; SQL forgets nothing.

        Raises:
            CheckpointError: the checkpoint that must cover them is not right; nothing went.
        """
        session = self._session
        row = self._own(name)
        cleanup = LogCleanup(
            session.connection.metastore,
            session.connection.store_of,
            session.connection.ownership.check_marker,
            session.connection.leases,
            session.connection.log_files,
        )
        if not dry_run:
            return cleanup.run(row, now=session.connection.now_ms())
        plan = cleanup.plan(row, now=session.connection.now_ms())
        return () if plan is None else plan.keys

    def recover(self, name: str) -> Recovered:
        """Bring a table's log and SQL together after one of them was lost, restored or cloned.

        Begin a new epoch first (`Catalog.new_epoch`) and open the catalog again.

        Raises:
            MirrorConflictError: both have a version and their bytes differ.
        """
        session = self._session
        recovery = Recovery(
            session.connection.metastore, session.mirroring.engine, _adopter(session)
        )
        recovered = recovery.recover(self._own(name))
        if recovered.put and session.connection.metastore.table(name).log_floor > 0:
            self.checkpoint(name)  # a log that does not begin at 0 is read from a checkpoint
        return recovered

    def rebuild(self, name: str, location: str, *, accept_differences: bool = False) -> Rebuilt:
        """Bring a table back from its log alone, when the database that had it is lost.

        What SQL has then is compared with the log. Safe to repeat: a run that was cut short goes
        on.

        Raises:
            ImportDifferenceError: SQL has something else than the log says, which
                `accept_differences` takes.
            OwnershipError: the log never was a catalog's.
            TableExistsError: the name, the place or the id is taken.
        """
        from deltasql.maintenance.rebuild import rebuild_table  # noqa: PLC0415 (rare)

        return rebuild_table(
            self._lazy.create().connection, name, location, accept_differences=accept_differences
        )

    def run_once(self) -> Sweep:
        """Mirror everything that is behind, once, and write the checkpoints that are due."""
        swept = self.reconciler().run_once()
        self._session.mirroring.checkpoints.finish()
        return swept

    def run(
        self,
        stop: threading.Event,
        *,
        listen: tuple[str, int] | None = None,
        on_listen: Callable[[str], None] | None = None,
    ) -> None:
        """Serve as a worker until `stop` is set; with `listen`, tell health and metrics there."""
        reconciler = self.reconciler()
        server = None if listen is None else HealthServer(health_of(reconciler), *listen)
        if server is not None and on_listen is not None:
            on_listen(server.address)
        try:
            reconciler.run(stop)
        finally:
            if server is not None:
                server.close()

    def reconciler(self, config: ReconciliationConfig | None = None) -> MirrorReconciler:
        """Return a reconciler over this catalog, set up as the settings say."""
        return make_reconciler(self._session, self._repair(), config)

    def _own(self, name: str) -> TableRow:
        """Return a table whose log is the catalog's own: others' logs are only read."""
        return require_own_log(self._connection.metastore.table(name))

    def _repair(self) -> MirrorRepair:
        session = self._session
        return MirrorRepair(
            session.mirroring.engine,
            session.mirroring.checkpointer,
            session.mirroring.engine.tracker,
            session.connection.log_files,
            _adopter(session),
            Settlement(
                session.mirroring.engine,
                session.mirroring.checkpointer,
                session.connection.metastore.recommitter(),
            ),
        )


def _adopter(session: Session) -> LogAdopter:
    from deltasql.imports.load.loader import LogAdopter  # noqa: PLC0415 (pyarrow)
    from deltasql.imports.load.tables import Importing  # noqa: PLC0415 (pyarrow)

    return LogAdopter(
        Importing.into(session.connection.metastore.database), session.connection.now_ms
    )


def _decision(**given: bool) -> Decision:
    chosen = [Decision(name) for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise BadArgumentError(
            f"Foreign commits are settled in one way: {' or '.join(chosen)}, not both.",
        )
    return chosen[0] if chosen else Decision.NONE
