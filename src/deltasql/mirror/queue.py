"""The queue of the mirror: which versions the logs lack, what was tried, and whether a log is
paused.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from deltasql.database.port import Database
from deltasql.errors import TableNotFoundError
from deltasql.metastore.table_row import TableRow, table_row
from deltasql.mirror.object_tags import CommitTag, remember_commits
from deltasql.runtime.connection import Connection
from deltasql.storage.port import ObjectTag

_LONGEST_MESSAGE = 2000


def mirror_mode(connection: Connection, row: TableRow) -> str:
    """Return `inline`, `worker` or `off`."""
    return "off" if row.mirror_paused else connection.settings_of(row).mirror.mode


class MirrorState(enum.StrEnum):
    """Where the mirroring of a version stands."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """The queue's row for one version."""

    version: int
    status: MirrorState
    json_written: bool
    checkpoint_written: bool
    digest: str
    retry_count: int
    error_message: str | None
    last_attempt_at: int | None
    next_attempt_at: int | None
    updated_at: int


@dataclass(frozen=True, slots=True)
class MirrorLag:
    """How far a log is behind SQL."""

    versions: int
    oldest_unmirrored_at: int | None


@dataclass(frozen=True, slots=True)
class LaggingTable:
    """A table whose log lacks versions; the rest is about the first of them."""

    table_id: str
    name: str
    location: str
    mirrored_through: int
    current_version: int
    committed_at: int | None
    status: str | None
    retry_count: int | None
    last_attempt_at: int | None
    next_attempt_at: int | None
    error_message: str | None
    properties: str
    state: str
    mirror_paused: bool

    def is_due(self, now: int) -> bool:
        """Tell whether it may be tried; a count that was reset by hand makes it due at once."""
        if not self.retry_count or self.next_attempt_at is None:
            return True
        return self.next_attempt_at <= now


class _Verdict(Protocol):
    @property
    def is_final(self) -> bool: ...

    @property
    def next_attempt_at(self) -> int: ...


V = TypeVar("V", bound=_Verdict)


class MirrorStatusTracker:
    """Records and answers how far each version has come on its way to `_delta_log`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mark_pending(self, table_id: str, version: int, digest: str, *, now: int) -> None:
        """Put a version into the queue; a commit does so itself, inside its transaction."""
        with self._database.write() as tx:
            if not tx.fetch_all("mirror_row", table_id=table_id, version=version):
                tx.execute(
                    "insert_mirror_row",
                    table_id=table_id,
                    version=version,
                    status=str(MirrorState.PENDING),
                    digest=digest,
                    now=now,
                )

    def mark_success(
        self,
        table_id: str,
        version: int,
        *,
        json_written: bool,
        checkpoint_written: bool,
        now: int,
        digest: str | None = None,
        tag: ObjectTag | None = None,
    ) -> int | None:
        """Record a mirrored version and move `mirrored_through` on if it was the next one.

        With the `digest` of what was put, nothing is recorded where the version is another
        commit by now. A `tag` that is not given leaves the one that another put was answered with.

        Returns the newest version in SQL at that moment, or None if somebody else moved it on.
        Whoever moves it on sees every commit that found the log behind, for both lock the
        table's row: he takes them along, and they need not wait.
        """
        # If a power cut undoes this, the version is put again and found to be there.
        with self._database.write(durable=False) as tx:
            tx.execute(
                "mirror_success",
                table_id=table_id,
                version=version,
                json_written=json_written,
                checkpoint_written=checkpoint_written,
                now=now,
                digest=digest,
                object_size=tag.size if tag else None,
                object_tag=tag.e_tag if tag else None,
            )
            place = {"table_id": table_id, "version": version, "digest": digest}
            newest = tx.fetch_later("advance_mirrored_through", **place)
        rows = newest()
        return int(rows[0][0]) if rows else None

    def mark_failed(
        self,
        table_id: str,
        version: int,
        error_message: str,
        *,
        now: int,
        final: bool = False,
        next_attempt_at: int | None = None,
    ) -> int:
        """Record a failed attempt and return how many there were; never undoes a success.

        With `final` the version is FAILED, else it stays PENDING and is due again.
        """
        status = MirrorState.FAILED if final else MirrorState.PENDING
        with self._database.write() as tx:
            rows = tx.fetch_all(
                "mirror_failure",
                table_id=table_id,
                version=version,
                status=str(status),
                error_message=error_message[:_LONGEST_MESSAGE],
                now=now,
                next_attempt_at=next_attempt_at,
            )
        return int(rows[0][0]) if rows else 0

    def mark_failed_by(
        self,
        table_id: str,
        version: int,
        error_message: str,
        judge: Callable[[int], V],
        *,
        now: int,
    ) -> tuple[int, V]:
        """Record a failed attempt; `judge` says what follows from the number of attempts."""
        with self._database.write() as tx:
            found = tx.fetch_all("mirror_row", table_id=table_id, version=version)
            attempts = (_status(found[0]).retry_count if found else 0) + 1
            verdict = judge(attempts)
            status = MirrorState.FAILED if verdict.is_final else MirrorState.PENDING
            tx.fetch_all(
                "mirror_failure",
                table_id=table_id,
                version=version,
                status=str(status),
                error_message=error_message[:_LONGEST_MESSAGE],
                now=now,
                next_attempt_at=verdict.next_attempt_at,
            )
        return attempts, verdict

    def mark_range(
        self,
        table_id: str,
        first: int,
        last: int,
        *,
        now: int,
        digest: str | None = None,
        tags: Sequence[CommitTag] = (),
    ) -> int | None:
        """Record that versions are in the log, with their tags; rows that are missing are made.

        `digest` is that of the last one as it was put. Returns the newest version in SQL, or
        None; see `mark_success`.
        """
        # If a power cut undoes this, the versions are put again and found to be there.
        with self._database.write(durable=False) as tx:
            place = {"table_id": table_id, "first": first, "last": last, "digest": digest}
            tx.execute("mirror_range", **place, now=now)
            remember_commits(tx, table_id, tags)
            newest = tx.fetch_later("advance_mirrored_range", **place)
        rows = newest()
        return int(rows[0][0]) if rows else None

    def make_missing(self, *, now: int) -> int:
        """Queue every version that no row speaks for, and return how many there were."""
        with self._database.write() as tx:
            missing = int(tx.fetch_all("count_missing_mirror_rows")[0][0])
            if missing:
                tx.execute("make_missing_mirror_rows", now=now)
        return missing

    def find_behind(self) -> list[LaggingTable]:
        """Return the tables whose log lacks versions, with the state of the first of them."""
        return [LaggingTable(*row) for row in self._database.fetch_all("behind_tables")]

    def reset(self, table_id: str, *, now: int) -> None:
        """Make everything that waits for its next attempt due at once."""
        with self._database.write() as tx:
            tx.execute("reset_retries", table_id=table_id, now=now)

    def mark_conflict(self, table_id: str, version: int, error_message: str, *, now: int) -> bool:
        """Record that the log holds other bytes, and stop commits to the table.

        Returns whether it is so: by now the version may be mirrored, or the other commit adopted.
        """
        with self._database.write() as tx:
            tx.fetch_all("lock_table", table_id=table_id)
            found = tx.fetch_all("mirror_row", table_id=table_id, version=version)
            if found and _status(found[0]).status is MirrorState.SUCCESS:
                return False
            tx.fetch_all(
                "mirror_failure",
                table_id=table_id,
                version=version,
                status=str(MirrorState.FAILED),
                error_message=error_message[:_LONGEST_MESSAGE],
                now=now,
                next_attempt_at=None,
            )
            tx.execute("conflict_state", table_id=table_id)
        return True

    def get_status(self, table_id: str, version: int) -> MirrorStatus | None:
        """Return the row of a version, or None if the queue has none."""
        with self._database.read() as tx:
            rows = tx.fetch_all("mirror_row", table_id=table_id, version=version)
        return _status(rows[0]) if rows else None

    def find_failed(self, table_id: str) -> list[int]:
        """Return the versions that are FAILED."""
        with self._database.read() as tx:
            rows = tx.fetch_all("mirror_failed_versions", table_id=table_id)
        return [version for (version,) in rows]

    def find_ready_for_retry(
        self, table_id: str, max_attempts: int, min_backoff_ms: int, *, now: int
    ) -> list[tuple[int, int]]:
        """Return (version, attempts so far) of what is due: never tried, or long enough ago."""
        with self._database.read() as tx:
            return [
                (version, attempts)
                for version, attempts in tx.fetch_all(
                    "mirror_ready",
                    table_id=table_id,
                    max_attempts=max_attempts,
                    latest_attempt=now - min_backoff_ms,
                )
            ]

    def get_mirror_lag(self, table_id: str) -> MirrorLag:
        """Return how many versions are not mirrored and how old the oldest is."""
        with self._database.read() as tx:
            row = self._row(tx.fetch_all("table_by_id", table_id=table_id), table_id)
            oldest = tx.fetch_all(
                "oldest_unmirrored", table_id=table_id, mirrored_through=row.mirrored_through
            )[0][0]
        return MirrorLag(row.current_version - row.mirrored_through, oldest)

    @staticmethod
    def _row(rows: list[tuple[Any, ...]], table_id: str) -> TableRow:
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {table_id}.")
        return table_row(rows[0])


def _status(row: tuple[Any, ...]) -> MirrorStatus:
    version, status, json_written, checkpoint_written, *rest = row
    return MirrorStatus(
        version, MirrorState(status), bool(json_written), bool(checkpoint_written), *rest
    )
