"""What a table is now, as plain values for people and programs."""

from __future__ import annotations

from typing import Any

from deltasql.catalog.rebased import renumberings
from deltasql.catalog.rows import TableRow
from deltasql.catalog.snapshots import Snapshot
from deltasql.client.session import Session
from deltasql.client.times import from_ms
from deltasql.protocol.features import is_fenced, reader_features, writer_features

_IMPORT = (
    "source_uri",
    "last_imported_version",
    "import_timestamp",
    "validation",
    "validated_version",
    "cut_over_at",
)


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
        "committed_at": from_ms(snapshot.timestamp).isoformat(),
        "created_at": from_ms(row.created_at).isoformat(),
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
        "renumberings": renumberings(row.properties),
        "mirror": mirror_detail(session, row.table_id),
        "import": import_detail(row),
    }


def import_detail(row: TableRow) -> dict[str, Any] | None:
    """Return where an imported table came from and what its validation said; else None."""
    noted = row.properties.get("import_metadata")
    return None if noted is None else {key: noted.get(key) for key in _IMPORT}


def mirror_detail(session: Session, table_id: str) -> dict[str, Any]:
    """Return how far the log has followed, and what holds it up."""
    row = session.book.table_by_id(table_id)
    lag = session.engine.tracker.get_mirror_lag(table_id)
    behind = 0.0
    if lag.oldest_unmirrored_at is not None:
        behind = max(session.now_ms() - lag.oldest_unmirrored_at, 0) / 1000
    waiting = session.engine.tracker.get_status(table_id, row.mirrored_through + 1)
    return {
        "mode": session.mirror_mode(row),
        "mirrored_through": row.mirrored_through,
        "lag_versions": lag.versions,
        "lag_seconds": behind,
        "status": str(waiting.status) if waiting else "SUCCESS",
        "retry_count": waiting.retry_count if waiting else 0,
        "error": waiting.error_message if waiting else None,
        **_last_verified(session, table_id),
    }


def _last_verified(session: Session, table_id: str) -> dict[str, Any]:
    """Return when a worker last compared the log with SQL, and how many differences it found."""
    last = session.verifications.find(table_id)
    at = last.verified_at if last else None
    return {
        "verified_at": None if at is None else from_ms(at).isoformat(),
        "findings": last.findings if last else None,
    }
