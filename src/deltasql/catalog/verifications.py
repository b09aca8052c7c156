"""When each table's log was last compared with SQL, for all workers to see."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.database import Database, Work
from deltasql.catalog.leases import Lease, Leases


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
        with self._database.read() as work:
            rows = work.rows("verifications")
            return work.now_ms(), {row[0]: Verification(*row) for row in rows}

    def find(self, table_id: str) -> Verification | None:
        """Return what is known of a table."""
        rows = self._database.rows("verification", table_id=table_id)
        return Verification(*rows[0]) if rows else None

    def begin(self, lease: Lease) -> None:
        """Write down that a comparison has begun.

        Raises:
            LeaseLostError: it is another worker's turn.
        """
        with self._database.write() as work:
            self._require(work, lease)
            work.run("begin_verification", table_id=lease.table_id, now=work.now_ms())

    def end(self, lease: Lease, version: int, findings: int) -> None:
        """Write down what a comparison has found in the log up to a version.

        Raises:
            LeaseLostError: another worker has taken over.
        """
        with self._database.write() as work:
            self._require(work, lease)
            work.run(
                "end_verification",
                table_id=lease.table_id,
                version=version,
                findings=findings,
                now=work.now_ms(),
            )

    def _require(self, work: Work, lease: Lease) -> None:
        """Lock the table's row, then the lease: a drop takes them in this order too."""
        work.rows("lock_table", table_id=lease.table_id)
        self._leases.require(work, lease)
