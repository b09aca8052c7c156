"""The worker of a catalog, put together as the settings say."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.alerts import (
    AlertDesk,
    BackgroundSink,
    command_alerts,
    log_alerts,
    webhook_alerts,
)
from deltasql.catalog.object_tags import ObjectTags
from deltasql.catalog.rows import TableRow
from deltasql.client.session import Session
from deltasql.errors import ConfigError
from deltasql.events import Sink
from deltasql.mirror.breaker import store_of
from deltasql.mirror.config import ReconciliationConfig
from deltasql.mirror.health import Health
from deltasql.mirror.mode import mirror_mode
from deltasql.mirror.rate import Rate
from deltasql.mirror.reconciler import MirrorReconciler
from deltasql.mirror.repair import MirrorRepair
from deltasql.mirror.verifying import PeriodicVerify, VerifySources
from deltasql.mirror.wakes import Wakes
from deltasql.settings import AlertSettings

_SILENT_S = 30.0


def make_reconciler(
    session: Session, repair: MirrorRepair, config: ReconciliationConfig | None = None
) -> MirrorReconciler:
    """Return a reconciler over a catalog, with its limits, hints and comparisons."""
    chosen = session.connection.settings.mirror
    session.mirroring.checkpoints.rate = Rate.per_minute(chosen.max_checkpoints_per_minute)
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
        puts=Rate.per_second(chosen.max_puts_per_second),
        wakes=Wakes(session.connection.metastore.database.watch_commits),
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
        return True  # told by the reconciler; a property that nobody can read excuses no table
    return mirror_mode(session.connection, row) != "off" and bool(chosen.verify_interval)


def health_of(reconciler: MirrorReconciler) -> Health:
    """Return how a worker tells that it is well."""
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
