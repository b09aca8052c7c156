"""Which state of a mirror deserves which alert, in words that tell what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from deltasql.errors import DeltaSqlError
from deltasql.events import Alert, Severity
from deltasql.parity.log import Difference, Finding

LAG, STUCK, CONFLICT = "mirror_lag", "mirror_stuck", "mirror_conflict"
DIFFERS = "mirror_differs"
FAILURE, DATABASE, STORE = "mirror_failure", "database_unavailable", "store_unavailable"
# A reader of the log sees other rows than SQL has; the rest only makes it slower, or may.
_GRAVE = {
    Difference.MISSING_COMMIT,
    Difference.CHANGED_COMMIT,
    Difference.FOREIGN_COMMIT,
    Difference.UNKNOWN_COMMIT,
}
_MOST_FACTS = 5


def lag_alert(
    table: str, lag_s: float, first_version: int, warn: timedelta, critical: timedelta
) -> Alert | None:
    """Return the alert for a lag, or None while it is short enough."""
    if lag_s <= warn.total_seconds():
        return None
    severity: Severity = "critical" if lag_s > critical.total_seconds() else "warning"
    limit = critical if severity == "critical" else warn
    return Alert(
        kind=LAG if severity == "warning" else f"{LAG}_critical",
        severity=severity,
        table=table,
        title=f"Mirror lag exceeds {_duration(limit.total_seconds())} for table {table}",
        facts=(f"Lag: {_duration(lag_s)}", f"First version not mirrored: {first_version}"),
        action="Check object store connectivity; see `deltasql mirror status`",
    )


def stuck_alert(table: str, version: int, attempts: int, error: str) -> Alert:
    """Return the alert for a version that gave up its quick retries."""
    return Alert(
        kind=STUCK,
        severity="warning",
        table=table,
        title=f"Mirror version stuck at {version} with {attempts} retries",
        facts=(f"Table: {table}", f"Error: {error}"),
        action="Check the object store's health and rights; `deltasql mirror repair` retries at "
        "once",
        error_code=_code(error),
    )


def failure_alert(table: str, version: int, error: str) -> Alert:
    """Return the alert for a table that the worker cannot mirror for a reason nobody expected."""
    return Alert(
        kind=FAILURE,
        severity="critical",
        table=table,
        title=f"The worker failed on version {version} of table {table}; it tries again",
        facts=(f"Table: {table}", f"Error: {error}"),
        action="The worker's log has the traceback; report it if `deltasql doctor` finds nothing",
        error_code=_code(error),
    )


def database_alert(error: DeltaSqlError) -> Alert:
    """Return the alert for a database that does not answer the worker."""
    return Alert(
        kind=DATABASE,
        severity="critical",
        table="",
        title="The worker cannot use the catalog's database; nothing is mirrored",
        facts=(f"Error: {error.code}: {error.message}",),
        action=error.advice or "Check the database; the worker goes on by itself",
        error_code=error.code,
    )


def store_alert(store: str, table: str, error: DeltaSqlError) -> Alert:
    """Return the alert for a store that does not answer the worker, or refuses it."""
    return Alert(
        kind=STORE,
        severity="critical",
        table="",
        title=f"The store {store} cannot be used; its tables can neither be written nor mirrored",
        facts=(f"Asked for: the owner marker of {table}", f"Error: {error.code}: {error.message}"),
        action=error.advice or "Check the store; the worker goes on by itself when it answers",
        error_code=error.code,
        store=store,
    )


def conflict_alert(table: str, version: int, key: str, error: str) -> Alert:
    """Return the alert for a log that holds what SQL does not know."""
    return Alert(
        kind=CONFLICT,
        severity="critical",
        table=table,
        title=f"The log of table {table} holds another commit than SQL; commits are refused",
        facts=(f"Key: {key}", f"Version: {version}", f"Error: {error}"),
        action=(
            "Nothing was overwritten. Compare with `deltasql mirror verify`, then decide which "
            "side stays with `deltasql mirror repair`"
        ),
        error_code=_code(error),
    )


def differs_alert(table: str, found: Sequence[Finding]) -> Alert:
    """Return the alert for a log that a comparison found to differ from SQL."""
    grave = [one for one in found if one.difference in _GRAVE]
    worst = [*grave, *(one for one in found if one not in grave)]
    facts = [f"{one.difference}: {one.key}: {one.detail}" for one in worst[:_MOST_FACTS]]
    if len(worst) > _MOST_FACTS:
        facts.append(f"And {len(worst) - _MOST_FACTS} more: `deltasql mirror verify {table}`")
    places = "1 place" if len(found) == 1 else f"{len(found)} places"
    return Alert(
        kind=f"{DIFFERS}_critical" if grave else DIFFERS,
        severity="critical" if grave else "warning",
        table=table,
        title=f"The log of table {table} differs from SQL in {places}",
        facts=tuple(facts),
        action=worst[0].action,
    )


def _code(error: str) -> str | None:
    """The code that a stored message begins with."""
    code, colon, _ = error.partition(":")
    return code if colon and code.startswith("DS") and code[2:].isdigit() else None


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 (a minute)
        return f"{whole} seconds"
    minutes = whole // 60
    return f"{minutes} minute{'s' if minutes != 1 else ''}"
