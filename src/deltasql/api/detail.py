"""What a table is now, as plain values for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deltasql.catalog.rows import TableRow, TableState
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.session import Session
from deltasql.client.times import time_text
from deltasql.mirror.mode import mirror_mode
from deltasql.protocol.features import is_fenced, reader_features, writer_features

_IMPORT = (
    "source_uri",
    "last_imported_version",
    "import_timestamp",
    "validation",
    "validated_version",
    "cut_over_at",
    "from_version",
)


@dataclass(frozen=True, slots=True)
class LogLag:
    """A log that lacks versions of SQL: how many, why, and whether an attempt has failed."""

    table: str
    version: int
    mirrored_through: int
    lag_versions: int
    reason: str
    state: Literal["waiting", "failing", "conflict"]

    def __str__(self) -> str:
        versions = "1 version" if self.lag_versions == 1 else f"{self.lag_versions} versions"
        at = "empty" if self.mirrored_through < 0 else f"at {self.mirrored_through}"
        why = self.reason.rstrip(".")
        return f"The log of {self.table} is {versions} behind SQL ({at} of {self.version}): {why}."


def table_detail(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    """Return the facts that `deltasql show` prints."""
    row, metadata, protocol = snapshot.table, snapshot.metadata, snapshot.protocol
    totals = snapshot.summary()
    return {
        "name": row.full_name,
        "table_id": row.table_id,
        "location": row.location,
        "state": str(row.state),
        "version": snapshot.version,
        "committed_at": time_text(snapshot.timestamp),
        "created_at": time_text(row.created_at),
        "description": metadata.description,
        "partition_columns": list(metadata.partition_columns),
        "files": totals.files,
        "bytes": totals.bytes,
        "rows": totals.rows,
        "min_reader_version": protocol.min_reader_version,
        "min_writer_version": protocol.min_writer_version,
        "reader_features": sorted(reader_features(protocol)),
        "writer_features": sorted(writer_features(protocol)),
        "fenced": is_fenced(protocol),
        "properties": dict(sorted(metadata.configuration.items())),
        "mirror": mirror_detail(session, row.table_id),
        "import": import_detail(row),
    }


def import_detail(row: TableRow) -> dict[str, Any] | None:
    """Return where an imported table came from and what its validation said; else None."""
    noted = row.properties.get("import_metadata")
    return None if noted is None else {key: noted.get(key) for key in _IMPORT}


def mirror_detail(session: Session, table_id: str) -> dict[str, Any]:
    """Return how far the log has followed, and what holds it up."""
    row = session.connection.metastore.table_by_id(table_id)
    lag = session.mirroring.engine.tracker.get_mirror_lag(table_id)
    behind = 0.0
    if lag.oldest_unmirrored_at is not None:
        behind = max(session.connection.now_ms() - lag.oldest_unmirrored_at, 0) / 1000
    waiting = session.mirroring.engine.tracker.get_status(table_id, row.mirrored_through + 1)
    return {
        "mode": mirror_mode(session.connection, row),
        "mirrored_through": row.mirrored_through,
        "lag_versions": lag.versions,
        "lag_seconds": behind,
        "status": str(waiting.status) if waiting else "SUCCESS",
        "retry_count": waiting.retry_count if waiting else 0,
        "error": waiting.error_message if waiting else None,
        **_last_verified(session, table_id),
    }


def log_lag(session: Session, row: TableRow) -> LogLag | None:
    """Return how far a table's log is behind SQL and why; None where it has every version."""
    missing = row.current_version - row.mirrored_through
    if missing <= 0:
        return None
    waiting = session.mirroring.engine.tracker.get_status(row.table_id, row.mirrored_through + 1)
    error = waiting.error_message if waiting else None
    mode = mirror_mode(session.connection, row)
    if row.mirror_paused:
        reason = "its mirror is paused; `deltasql mirror resume` lets it go on"
    elif mode == "off":
        reason = "its mirror is off"
    elif error is not None:
        reason = error
    else:
        reason = "not tried yet; a worker (`deltasql mirror run`) mirrors them"
    state: Literal["waiting", "failing", "conflict"] = "waiting"
    if row.state is TableState.CONFLICT:
        state = "conflict"
    elif error is not None and mode != "off":
        state = "failing"
    return LogLag(row.full_name, row.current_version, row.mirrored_through, missing, reason, state)


def _last_verified(session: Session, table_id: str) -> dict[str, Any]:
    """Return when a worker last compared the log with SQL, and how many differences it found."""
    last = session.mirroring.verifications.find(table_id)
    at = last.verified_at if last else None
    return {
        "verified_at": None if at is None else time_text(at),
        "findings": last.findings if last else None,
    }
