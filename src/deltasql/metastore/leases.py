"""Leases: one worker at a time for a table's checkpoints, cleanup and vacuum.

By the database's clock. Every new holder gets a higher fencing number; whoever was paused past its
lease finds another number there and writes nothing any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.database.port import Database, DbTransaction
from deltasql.errors import LeaseLostError

# The lease of the process that deletes a purged table's objects.
PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to do one kind of work on one table, for a while."""

    table_id: str
    purpose: str
    holder: str
    fencing: int


class Leases:
    """Gives, renews and takes back leases; safe to use from many threads and processes."""

    def __init__(self, database: Database, holder: str, *, ttl_ms: int = 60_000) -> None:
        self._database = database
        self.holder = holder
        self.ttl_ms = ttl_ms

    def acquire(self, table_id: str, purpose: str) -> Lease | None:
        """Return a lease, or None while another holder has it."""
        with self._database.write() as tx:
            now = tx.now_ms()
            rows = tx.fetch_all(
                "acquire_lease",
                table_id=table_id,
                purpose=purpose,
                holder=self.holder,
                now=now,
                expires_at=now + self.ttl_ms,
            )
        return Lease(table_id, purpose, self.holder, int(rows[0][0])) if rows else None

    def renew(self, lease: Lease) -> None:
        """Make a lease last longer.

        Raises:
            LeaseLostError: somebody else has it now.
        """
        with self._database.write() as tx:
            self.require(tx, lease)
            tx.execute(
                "renew_lease",
                table_id=lease.table_id,
                purpose=lease.purpose,
                expires_at=tx.now_ms() + self.ttl_ms,
            )

    def release(self, lease: Lease) -> None:
        """Give a lease back; silent where it was lost meanwhile."""
        with self._database.write() as tx:
            tx.execute(
                "release_lease",
                table_id=lease.table_id,
                purpose=lease.purpose,
                holder=lease.holder,
                fencing=lease.fencing,
            )

    def end(self, lease: Lease) -> None:
        """Give a lease back whose table is gone: no number goes on, and no row stays."""
        with self._database.write() as tx:
            tx.execute(
                "end_lease",
                table_id=lease.table_id,
                purpose=lease.purpose,
                holder=lease.holder,
                fencing=lease.fencing,
            )

    def require(self, tx: DbTransaction, lease: Lease) -> None:
        """Inside a transaction: go on only with a lease that is still ours.

        Raises:
            LeaseLostError: somebody else has it now.
        """
        rows = tx.fetch_all("lock_lease", table_id=lease.table_id, purpose=lease.purpose)
        if not rows or (rows[0][0], rows[0][1]) != (lease.holder, lease.fencing):
            raise LeaseLostError(
                f"The lease for {lease.purpose} of table {lease.table_id} was lost: another worker "
                "has it, or the table was dropped.",
                table_id=lease.table_id,
            )


def write_purpose(work_id: str) -> str:
    """Return the purpose of the lease by which vacuum knows of a write in flight."""
    return f"write:{work_id}"


def is_leased(database: Database, table_id: str, purpose: str) -> bool:
    """Tell whether somebody is at work on a table, by the database's clock."""
    with database.read() as tx:
        now = tx.now_ms()
        return bool(tx.fetch_all("live_lease", table_id=table_id, purpose=purpose, now=now))
