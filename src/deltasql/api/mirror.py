"""How the logs of a catalog follow SQL: look, pause, verify, repair, and the worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltasql.catalog.copies import require_own_log
from deltasql.catalog.rows import TableRow, TableState
from deltasql.client.detail import LogLag, log_lag, mirror_detail
from deltasql.client.opening import LazySession
from deltasql.client.session import Session
from deltasql.client.worker import health_of, make_reconciler
from deltasql.errors import BadArgumentError, DeltaSqlError, LeaseLostError, VersionNotFoundError
from deltasql.mirror.cleanup import LogCleanup
from deltasql.mirror.config import ReconciliationConfig
from deltasql.mirror.health import HealthServer
from deltasql.mirror.reconciler import MirrorReconciler
from deltasql.mirror.recovery import Recovered, Recovery
from deltasql.mirror.repair import Decision, MirrorRepair
from deltasql.mirror.settlement import Repaired, Settlement
from deltasql.mirror.store_watch import ask_stores, stores_of
from deltasql.mirror.sweep import Sweep
from deltasql.parity.data_files import compare_data_files
from deltasql.parity.log import Finding
from deltasql.runtime.connection import Connection

if TYPE_CHECKING:
    from deltasql.client.rebuild import Rebuilt
    from deltasql.importer.adopt import LogAdopter


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
        from deltasql.client.rebuild import rebuild_table  # noqa: PLC0415 (rare)

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
    from deltasql.catalog.importing import Importing  # noqa: PLC0415 (pyarrow)
    from deltasql.importer.adopt import LogAdopter  # noqa: PLC0415 (pyarrow)

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


_WAIT_S = 60.0
_MIRRORED = frozenset({TableState.ACTIVE, TableState.CONFLICT})
