"""What happened, as values; whoever wants logs, metrics or alerts gives a sink that reads them.

This module also hangs the NullHandler on the package's logger: a library stays silent until its
host configures logging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

logging.getLogger("deltasql").addHandler(logging.NullHandler())
_logger = logging.getLogger(__name__)


# Few, so that metrics can have them as a label: the input or the state of the table, a right that
# is missing, what does not answer, an outcome that nobody knows, a bug.
FailureReason = Literal["refused", "denied", "unavailable", "unknown", "unexpected"]
Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to a version of a table."""

    name: ClassVar[str] = "event"
    is_bad: ClassVar[bool] = False

    table_id: str
    table: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCommitted(Event):
    """A version is in SQL; `files_active` is the number of live files where it is known."""

    name: ClassVar[str] = "version_committed"

    operation: str
    latency_ms: float
    attempt: int = 1
    transaction_id: str | None = None
    files_active: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitConflicted(Event):
    """A commit lost against `version` and was refused or will be tried again."""

    name: ClassVar[str] = "commit_conflicted"
    is_bad: ClassVar[bool] = True

    attempt: int
    error_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOpened(Event):
    """A version was opened from SQL."""

    name: ClassVar[str] = "snapshot_opened"

    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRepeated(Event):
    """A write was sent again under its token or number; `version` is the one that holds it."""

    name: ClassVar[str] = "commit_repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMirrored(Event):
    """A version's bytes are in `_delta_log`; `latency_ms` counts from its commit."""

    name: ClassVar[str] = "version_mirrored"

    key: str
    latency_ms: float
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVacuumed(Event):
    """Data files that nothing needed are deleted."""

    name: ClassVar[str] = "table_vacuumed"

    objects: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWritten(Event):
    """A checkpoint of this version is in `_delta_log`."""

    name: ClassVar[str] = "checkpoint_written"

    key: str
    latency_ms: float
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed(Event):
    """A checkpoint could not be written; the commits are in the log all the same."""

    name: ClassVar[str] = "checkpoint_failed"
    is_bad: ClassVar[bool] = True

    key: str
    error_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFailed(Event):
    """An attempt to mirror a version failed; `next_attempt_ms` is when the next one is due."""

    name: ClassVar[str] = "mirror_failed"
    is_bad: ClassVar[bool] = True

    key: str
    attempt: int
    error_code: str
    next_attempt_ms: int | None = None
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConflicted(Event):
    """`_delta_log` holds other bytes for this version: the table stops."""

    name: ClassVar[str] = "mirror_conflicted"
    is_bad: ClassVar[bool] = True

    key: str
    error_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFenced(Event):
    """The log is not ours or is ahead of SQL: nothing is written to it."""

    name: ClassVar[str] = "table_fenced"
    is_bad: ClassVar[bool] = True

    key: str
    error_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LagMeasured(Event):
    """How far the log is behind SQL; `version` is the newest one in SQL."""

    name: ClassVar[str] = "lag_measured"

    lag_seconds: float
    lag_versions: int
    stuck_versions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePassFinished(Event):
    """A reconciler has looked over all tables; `queries` counts those it has asked in all.

    `conflicts` is how many tables are in state conflict.
    """

    name: ClassVar[str] = "reconcile_pass_finished"

    behind: int
    missing_rows: int
    queries: int
    stores_down: int
    latency_ms: float
    conflicts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerFailed(Event):
    """A reconciler could not work: SQL does not answer, or contradicts itself."""

    name: ClassVar[str] = "reconciler_failed"
    is_bad: ClassVar[bool] = True

    error_code: str
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProbed(Event):
    """A worker has asked a store for a small object; `error_code` tells why that failed.

    `stores_down` is how many stores the worker cannot use, this one counted.
    """

    name: ClassVar[str] = "store_probed"

    store: str
    latency_ms: float
    stores_down: int
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnavailable(Event):
    """A store does not answer a worker, or refuses it; reported when that begins or changes."""

    name: ClassVar[str] = "store_unavailable"
    is_bad: ClassVar[bool] = True

    store: str
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A commit was not made, or nobody knows; `reason` is the class of the cause.

    `version` is the one that was read. Conflicts are `CommitConflicted`.
    """

    name: ClassVar[str] = "commit_failed"
    is_bad: ClassVar[bool] = True

    reason: FailureReason
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataWriteFailed(Event):
    """Data files of a write could not be written; `version` is the one that was read."""

    name: ClassVar[str] = "data_write_failed"
    is_bad: ClassVar[bool] = True

    reason: FailureReason
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerified(Event):
    """A worker has compared a log with SQL up to this version.

    `objects_read` had their bytes compared; of `objects_by_tag` the listing alone was enough.
    """

    name: ClassVar[str] = "log_verified"

    findings: int
    objects_read: int
    objects_by_tag: int
    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiffers(Event):
    """A worker has found an object of a log that differs from SQL; one event each."""

    name: ClassVar[str] = "log_differs"
    is_bad: ClassVar[bool] = True

    key: str
    difference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsCounted(Event):
    """How many differences the last comparison of a log has found, whichever worker made it."""

    name: ClassVar[str] = "findings_counted"

    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Event):
    """Something that somebody should look at, or (`resolved`) no longer need to.

    Alerts with the same `kind` and `table` or `store` are repeats. `time` is in UTC; `catalog` and
    `worker` are the ids of the sender. Tables are told by their names; an alert has no version.
    """

    name: ClassVar[str] = "alert"
    is_bad: ClassVar[bool] = True

    table_id: str = ""
    table: str = ""
    version: int = 0
    kind: str
    severity: Severity
    title: str
    facts: tuple[str, ...]
    action: str
    error_code: str | None = None
    store: str = ""
    status: Literal["firing", "resolved"] = "firing"
    time: str = ""
    catalog: str = ""
    worker: str = ""

    @property
    def subject(self) -> str:
        """What it is about: a table, a store, or the whole catalog."""
        return self.table or self.store

    def text(self) -> str:
        """Return the alert as people read it."""
        if self.status == "resolved":
            return f"RESOLVED: {self.title}"
        word = "CRITICAL" if self.severity == "critical" else "WARN"
        lines = [f"{word}: {self.title}", *(f"- {fact}" for fact in self.facts)]
        return "\n".join([*lines, f"- Recommended action: {self.action}"])

    def to_dict(self) -> dict[str, object]:
        """Return the alert as receivers get it: its own fields, and its text."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "table": self.table,
            "title": self.title,
            "facts": self.facts,
            "action": self.action,
            "error_code": self.error_code,
            "store": self.store,
            "status": self.status,
            "time": self.time,
            "catalog": self.catalog,
            "worker": self.worker,
            "text": self.text(),
        }


Sink = Callable[[Event], None]


def fan_out(*sinks: Sink) -> Sink:
    """Return one sink that feeds them all; a sink that fails is logged and passed over."""

    def send(event: Event) -> None:
        for sink in sinks:
            try:
                sink(event)
            except Exception as error:  # noqa: BLE001 (telemetry never fails the work)
                # the kind only: a foreign exception's text may hold anything
                _logger.warning("A sink failed on %s: %s", event.name, type(error).__name__)

    return send


def discard(event: Event) -> None:
    """Ignore the event: the sink of those who want none."""
