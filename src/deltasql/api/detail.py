"""What a table is now, as plain values; arguments and points in time as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Literal, TypeGuard

from deltasql.api.session import Session
from deltasql.errors import BadArgumentError
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.queue import mirror_mode
from deltasql.protocol.features import is_fenced, reader_features, writer_features

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_IMPORT = (
    "source_uri",
    "last_imported_version",
    "import_timestamp",
    "validation",
    "validated_version",
    "cut_over_at",
    "from_version",
)


def is_token(value: object) -> TypeGuard[str]:
    """Tell whether a value is a text that both databases can keep as a token."""
    return isinstance(value, str) and bool(value) and "\x00" not in value


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_version(version: object, name: str = "version") -> None:
    """Refuse a value that is not a version number.

    Raises:
        BadArgumentError: names the argument.
    """
    if version is not None and not is_whole(version):
        raise BadArgumentError(f"{name} is {version!r}, not the number of a version.")


def check_filter(where: object, *, is_required: bool = False) -> None:
    """Refuse what is no text of a filter.

    Raises:
        BadArgumentError: says what a filter is.
    """
    if isinstance(where, str) or (where is None and not is_required):
        return
    raise BadArgumentError(
        f"where is {where!r}, not a filter.", hint="Give a text such as \"day = '2026-01-31'\"."
    )


def columns_or_none(columns: object) -> tuple[str, ...] | None:
    """Return a choice of columns as a value; None is all of them.

    Raises:
        BadArgumentError: it is no list of names.
    """
    if columns is None:
        return None
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str | bytes)
    if not is_list or not all(isinstance(name, str) for name in columns):  # type: ignore[attr-defined]
        raise BadArgumentError(
            f"columns is {columns!r}, not a list of names.", hint='Give a list such as ["id"].'
        )
    return tuple(columns)  # type: ignore[arg-type]


def to_ms(moment: datetime | date | int | str, zone: tzinfo = UTC) -> int:
    """Return a datetime, a date, ISO text or a number of milliseconds; no zone means `zone`.

    Parts of a millisecond are cut off: a moment before a commit does not see it.

    Raises:
        BadArgumentError: it is no time.
    """
    if is_whole(moment):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise _no_time(moment) from error
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time.min)
    if not isinstance(moment, datetime) or moment != moment:  # noqa: PLR0124 (pandas' NaT)
        raise _no_time(moment)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int((moment - _EPOCH) // _MILLISECOND)


def time_text(milliseconds: int) -> str:
    """Return a time in UTC as ISO text; outside of the years 1 to 9999, as its number."""
    try:
        return (_EPOCH + milliseconds * _MILLISECOND).isoformat()
    except OverflowError:
        return f"{milliseconds} ms since 1970"


def _no_time(given: object) -> BadArgumentError:
    return BadArgumentError(
        f"{given!r} is not a time.",
        hint="Give a datetime, a text like 2026-01-31T12:00:00Z, or milliseconds since 1970.",
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
