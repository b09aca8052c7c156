"""Verify every table once in a while, spread evenly, by one worker at a time.

Every `interval` each table has its turn, so of n tables one begins every n-th of it. What is
behind, or lies in a store that is down, waits. Several workers take turns by what SQL knows.
One listing is compared with the tags that SQL remembers; few objects are read (see `TagCheck`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from deltasql.database.port import Database, DbTransaction
from deltasql.errors import DeltaSqlError
from deltasql.events import (
    FindingsCounted,
    LogDiffers,
    LogVerified,
    ReconcilerFailed,
    Sink,
    discard,
)
from deltasql.metastore.leases import Lease, Leases
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.compare import Finding, VerifyThrottle
from deltasql.mirror.object_tags import ObjectTags, TagCheck
from deltasql.mirror.worker.alerts import DIFFERS, AlertDesk, differs_alert

PURPOSE = "verify"
_LONGEST_PAUSE_S = 30.0
_SHORTEST_PAUSE_S = 0.1

# One reads while another waits for the store: the commits' own puts come first.
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class Verification:
    """The last comparison that was begun, and the end of the last one that came to one.

    `runs` is how many came to an end.
    """

    table_id: str
    started_at: int
    verified_at: int | None
    version: int | None
    findings: int | None
    runs: int = 0


class Verifications:
    """The comparisons of a catalog's tables; by the database's clock."""

    def __init__(self, database: Database, leases: Leases) -> None:
        self._database = database
        self._leases = leases

    def all(self) -> tuple[int, dict[str, Verification]]:
        """Return the time and what is known of each table."""
        with self._database.read() as tx:
            rows = tx.fetch_all("verifications")
            return tx.now_ms(), {row[0]: Verification(*row) for row in rows}

    def find(self, table_id: str) -> Verification | None:
        """Return what is known of a table."""
        rows = self._database.fetch_all("verification", table_id=table_id)
        return Verification(*rows[0]) if rows else None

    def begin(self, lease: Lease) -> None:
        """Write down that a comparison has begun.

        Raises:
            LeaseLostError: it is another worker's turn.
        """
        with self._database.write() as tx:
            self._require(tx, lease)
            tx.execute("begin_verification", table_id=lease.table_id, now=tx.now_ms())

    def end(self, lease: Lease, version: int, findings: int) -> None:
        """Write down what a comparison has found in the log up to a version.

        Raises:
            LeaseLostError: another worker has taken over.
        """
        with self._database.write() as tx:
            self._require(tx, lease)
            tx.execute(
                "end_verification",
                table_id=lease.table_id,
                version=version,
                findings=findings,
                now=tx.now_ms(),
            )

    def _require(self, tx: DbTransaction, lease: Lease) -> None:
        """Lock the table's row, then the lease: a drop takes them in this order too."""
        tx.fetch_all("lock_table", table_id=lease.table_id)
        self._leases.require(tx, lease)


class _StoppedError(Exception):
    """The worker ends; the comparison is given up and is another worker's."""


@dataclass(frozen=True, slots=True)
class VerifySources:
    """What the comparisons need of the catalog."""

    tables: Callable[[], list[TableRow]]
    find_table: Callable[[str], TableRow]
    compare: Callable[[TableRow, VerifyThrottle], list[Finding]]
    verifications: Verifications
    leases: Leases
    tags: ObjectTags


@dataclass(slots=True)
class PeriodicVerify:
    """Compares every table's log with SQL once in an interval; `run` serves in a thread."""

    sources: VerifySources
    interval: timedelta
    is_wanted: Callable[[TableRow], bool] = lambda _: True
    is_store_up: Callable[[TableRow], bool] = lambda _: True
    desk: AlertDesk = field(default_factory=AlertDesk)
    sink: Sink = discard
    monotonic: Callable[[], float] = time.monotonic
    queries: int = 0
    _counted: dict[str, int] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set; a comparison under way is given up then."""
        while not stop.is_set():
            pause = _LONGEST_PAUSE_S
            try:
                pause = self.step(stop)
            except Exception as error:  # noqa: BLE001 (the next turn may be better)
                self._report_error(error, None)
            stop.wait(pause)

    @contextmanager
    def beside(self, stop: threading.Event) -> Iterator[None]:
        """Serve in a thread beside the block; with the block it ends."""
        thread = threading.Thread(target=self.run, args=(stop,), name="deltasql-verify")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def step(self, stop: threading.Event) -> float:
        """Verify the table whose turn it is, if any, and return the seconds until the next look."""
        now, known = self.sources.verifications.all()
        every = self.sources.tables()
        self.queries += 2
        self._count(every, known)
        rows = [row for row in every if row.state is TableState.ACTIVE and self.is_wanted(row)]
        if not rows:
            return _LONGEST_PAUSE_S
        slot = self.interval.total_seconds() * 1000 / len(rows)
        began = max((one.started_at for one in known.values()), default=None)
        if began is not None and now - began < slot:
            return _pause((slot - (now - began)) / 1000)
        for row in sorted(rows, key=lambda row: _turn(known.get(row.table_id))):
            last = known.get(row.table_id)
            if last is not None and now - last.started_at < self.interval_ms - slot:
                break
            if row.mirrored_through >= row.current_version and self.is_store_up(row):
                # where another worker is at this one, the turn is his
                return _pause(slot / 1000) if self._take(row, last, stop) else _LONGEST_PAUSE_S
        return _LONGEST_PAUSE_S

    @property
    def interval_ms(self) -> float:
        """The interval in milliseconds."""
        return self.interval.total_seconds() * 1000

    def _take(self, row: TableRow, last: Verification | None, stop: threading.Event) -> bool:
        """Verify a table under its lease; False where another worker has or had the turn."""
        verifications, leases = self.sources.verifications, self.sources.leases
        lease = leases.acquire(row.table_id, PURPOSE)
        self.queries += 1
        if lease is None:
            return False
        try:
            if verifications.find(row.table_id) != last:
                return False
            verifications.begin(lease)
            check = TagCheck(self.sources.tags, row.table_id, last.runs if last else 0)
            self._verify(check, lease, stop)
        except _StoppedError:
            pass
        except Exception as error:  # noqa: BLE001 (a store, a disk: the others go on)
            self._report_error(error, row)
        finally:
            leases.release(lease)
        return True

    def _verify(self, check: TagCheck, lease: Lease, stop: threading.Event) -> None:
        started = self.monotonic()
        keeper = _Keeper(self.sources.leases, lease, stop, self.monotonic)
        effort = VerifyThrottle(_WORKERS, keeper.keep, check=check)
        row = self.sources.find_table(check.table_id)
        found = self.sources.compare(row, effort)
        if found:
            # Cleanup, repair and checkpoints go on meanwhile: only what stays is a difference.
            row = self.sources.find_table(row.table_id)
            again = {(one.difference, one.key) for one in self.sources.compare(row, effort)}
            found = [one for one in found if (one.difference, one.key) in again]
        self.sources.verifications.end(lease, row.mirrored_through, len(found))
        self.sink(
            LogVerified(
                table_id=row.table_id,
                table=row.full_name,
                version=row.mirrored_through,
                findings=len(found),
                objects_read=check.objects_read,
                objects_by_tag=check.objects_by_tag,
                latency_ms=(self.monotonic() - started) * 1000,
            )
        )
        self._report_findings(row, found)

    def _report_findings(self, row: TableRow, found: list[Finding]) -> None:
        place = {"table_id": row.table_id, "table": row.full_name}
        self._counted[row.full_name] = len(found)
        self.sink(FindingsCounted(**place, version=row.mirrored_through, findings=len(found)))
        alert = differs_alert(row.full_name, found) if found else None
        for kind in (DIFFERS, f"{DIFFERS}_critical"):
            if alert is not None and alert.kind == kind:
                self.desk.forget(kind, row.full_name)  # each comparison tells what it finds
            else:
                self.desk.clear(kind, row.full_name)
        for one in found:
            self.sink(
                LogDiffers(
                    **place,
                    version=row.mirrored_through if one.version is None else one.version,
                    key=one.key,
                    difference=str(one.difference),
                )
            )
        if alert is not None:
            self.desk.tell(alert, self.monotonic())

    def _count(self, rows: list[TableRow], known: dict[str, Verification]) -> None:
        """Tell the findings that SQL knows of, whoever found them, where they are news."""
        counts = {}
        for row in rows:
            one = known.get(row.table_id)
            if one is not None and one.findings is not None:
                counts[row.full_name] = (row.table_id, one.version or 0, one.findings)
        for name in self._counted.keys() - counts.keys():
            counts[name] = ("", 0, 0)  # the table is gone, or has another name
        for name, (table_id, version, findings) in counts.items():
            if self._counted.get(name, 0) != findings:
                self.sink(
                    FindingsCounted(
                        table_id=table_id, table=name, version=version, findings=findings
                    )
                )
        self._counted = {name: findings for name, (_, _, findings) in counts.items()}

    def _report_error(self, error: Exception, row: TableRow | None) -> None:
        code = error.code if isinstance(error, DeltaSqlError) else type(error).__name__
        self.sink(
            ReconcilerFailed(
                table_id=row.table_id if row else "",
                table=row.full_name if row else "",
                version=row.mirrored_through if row else 0,
                error_code=code,
            )
        )


@dataclass(slots=True)
class _Keeper:
    """Keeps the lease while a comparison lasts, and ends it when the worker ends."""

    leases: Leases
    lease: Lease
    stop: threading.Event
    monotonic: Callable[[], float]
    _renewed: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._renewed = self.monotonic()

    def keep(self) -> None:
        if self.stop.is_set():
            raise _StoppedError
        with self._lock:
            if (self.monotonic() - self._renewed) * 1000 > self.leases.ttl_ms / 3:
                self.leases.renew(self.lease)
                self._renewed = self.monotonic()


def _turn(last: Verification | None) -> int:
    """The longest ago goes first; what never had a turn goes before all."""
    return -1 if last is None else last.started_at


def _pause(seconds: float) -> float:
    return min(max(seconds, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
