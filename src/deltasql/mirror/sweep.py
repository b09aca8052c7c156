"""The look over all tables: how far each log is behind, whom to tell, what was seen in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltasql.alerts import AlertDesk
from deltasql.catalog.mirror_status import Behind
from deltasql.catalog.rows import TableRow, TableState
from deltasql.events import LagMeasured, ReconcilerSwept, Sink
from deltasql.mirror.alerting import CONFLICT, FAILURE, LAG, STUCK


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look over all tables found and did."""

    behind: int
    mirrored: int
    failed: int
    missing_rows: int


def lag_of(behind: Behind, now: int) -> LagMeasured:
    """Return how far a table's log is behind at a moment, in milliseconds."""
    return LagMeasured(
        table_id=behind.table_id,
        table=behind.name,
        version=behind.current_version,
        lag_seconds=max(now - (behind.committed_at or now), 0) / 1000,
        lag_versions=behind.current_version - behind.mirrored_through,
        stuck_versions=1 if behind.status == "FAILED" else 0,
    )


def tell_caught_up(table_id: str, name: str, desk: AlertDesk, sink: Sink) -> None:
    """Say that a table's log has caught up: whatever was wrong with it is over."""
    for kind in (LAG, f"{LAG}_critical", STUCK, CONFLICT, FAILURE):
        desk.clear(kind, name)
    sink(LagMeasured(table_id=table_id, table=name, version=0, lag_seconds=0.0, lag_versions=0))


def swept(
    found: Sweep, tables: Sequence[TableRow], *, queries: int, stores_down: int, latency_ms: float
) -> ReconcilerSwept:
    """Return what a look over all tables has seen, as an event."""
    return ReconcilerSwept(
        table_id="",
        table="",
        version=0,
        behind=found.behind,
        missing_rows=found.missing_rows,
        queries=queries,
        stores_down=stores_down,
        latency_ms=latency_ms,
        conflicts=sum(row.state is TableState.CONFLICT for row in tables),
    )
