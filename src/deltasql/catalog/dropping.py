"""Drop a table: what speaks against it is looked up under its row lock, in the same transaction."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.database import Database, Work
from deltasql.catalog.neighbours import Place, neighbours_keys, nested_folders, own_keys
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.crash import crash_point
from deltasql.errors import (
    MirrorLagError,
    OwnershipError,
    TableNotFoundError,
    TableStateError,
)

# The rows of a dropped table that no audit needs.
PURGE = (
    "purge_files",
    "purge_removed_files",
    "purge_partitions",
    "purge_stats_num",
    "purge_stats_text",
    "purge_stats_columns",
    "purge_mirror_rows",
    "purge_log_files",
    "purge_txns",
)
# The rows of work on a table; a dropped table has none.
_WORK = ("purge_leases", "purge_verifications", "purge_open_work")
_VACUUM = ("purge_vacuumed_files", "purge_vacuum_marks")


@dataclass(frozen=True, slots=True)
class Dropping:
    """Drops tables of one catalog, for a process that opened it under an epoch."""

    database: Database
    epoch: int

    def drop(self, row: TableRow, *, may_lag: bool) -> None:
        """Take a table out of the catalog; its rows, its files and its log stay.

        Raises:
            MirrorLagError: commits have not reached the log, and `may_lag` is not set.
            OwnershipError, TableStateError, TableNotFoundError: the catalog or the table changed.
        """
        with self.database.write() as work:
            locked = self._lock(work, row)
            if not may_lag and locked.mirrored_through < locked.current_version:
                raise MirrorLagError(
                    f"Table {row.full_name} has commits up to {locked.current_version}, its log "
                    f"only up to {locked.mirrored_through}.",
                    hint="Mirror it first, or drop it with force.",
                    table=row.full_name,
                )
            self._take_out(work, row)
            crash_point("before-drop-commit")

    def purge(self, row: TableRow) -> list[str]:
        """Take a table out of the catalog with the rows of its files; return their keys.

        Raises:
            OwnershipError, TableStateError, TableNotFoundError: the catalog or the table changed,
                or another table refers to its files.
        """
        place = Place(row.table_id, row.location, row.location_key)
        with self.database.write() as work:
            self._lock(work, row)
            key = next(neighbours_keys(work, place), None)
            if key is not None:
                raise TableStateError(
                    f"Another table refers to {key} of {row.full_name}; it cannot be purged.",
                    hint="Drop the clones first, or drop this table without purge.",
                    table=row.full_name,
                )
            others = tuple(f"{folder}/" for folder in nested_folders(work, place))
            found = own_keys(place, work.rows("all_paths", table_id=row.table_id))
            keys = sorted({key for key in found if not key.startswith(others)})
            self._take_out(work, row)
            # from now on no commit of another table may refer to these objects
            work.run("set_vacuuming", table_id=row.table_id)
            for name in (*_VACUUM, *PURGE):
                work.run(name, table_id=row.table_id)
            crash_point("before-drop-commit")
        return keys

    def _lock(self, work: Work, row: TableRow) -> TableRow:
        rows = work.rows("lock_table", table_id=row.table_id)
        if not rows or table_row(rows[0]).state is TableState.DELETED:
            raise TableNotFoundError(
                f"There is no table {row.full_name!r} in the catalog.", table=row.full_name
            )
        locked, epoch = table_row(rows[0]), int(rows[0][16])
        if epoch != self.epoch:
            raise OwnershipError(
                f"The catalog was recovered under epoch {epoch}; this process has {self.epoch}.",
                hint="Open the catalog again.",
            )
        if locked.state is not row.state:
            raise TableStateError(
                f"Table {row.full_name} was {row.state} and is {locked.state} now.",
                hint="Look at it again before you drop it.",
                table=row.full_name,
            )
        return locked

    def _take_out(self, work: Work, row: TableRow) -> None:
        work.run("set_state", table_id=row.table_id, state=str(TableState.DELETED))
        for name in _WORK:
            work.run(name, table_id=row.table_id)
