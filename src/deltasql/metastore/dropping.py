"""Drop a table, or bring it back: decided under its row lock, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import (
    MirrorLagError,
    OwnershipError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.metastore.references import Place, neighbours_keys, nested_folders, own_keys
from deltasql.metastore.table_row import (
    DROPPED_AT,
    DROPPED_STATE,
    TableRow,
    TableState,
    locked_table,
)
from deltasql.protocol.codec import dump_values

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
    "end_import",
    "purge_vacuum_marks",
    "end_vacuuming",
)
# Ends all work on a table. Marks of a vacuum stay: what it is deleting at this moment stays refused
# to commits, and the first vacuum after an undrop finishes it.
_END_WORK = ("end_all_open_work", "revoke_leases", "forget_verification")
_DROPPED = (DROPPED_AT, DROPPED_STATE)


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
        with self.database.write() as tx:
            locked = self._lock(tx, row)
            if not may_lag and locked.mirrored_through < locked.current_version:
                raise MirrorLagError(
                    f"Table {row.full_name} has commits up to {locked.current_version}, its log "
                    f"only up to {locked.mirrored_through}.",
                    hint="Mirror it first, or drop it with force.",
                    table=row.full_name,
                )
            self._take_out(tx, locked)
            crash_point("before-drop-commit")

    def undrop(self, row: TableRow) -> None:
        """Bring a dropped table back to the state that it had; its versions stay as they are.

        The database refuses a name or a place that another table has by now.

        Raises:
            TableStateError: it is back already, or was purged or replaced.
            OwnershipError: the catalog was recovered since it was opened.
            UniqueViolationError: the name or the place is taken.
        """
        with self.database.write() as tx:
            rows = tx.fetch_all("lock_table", table_id=row.table_id)
            locked = locked_table(rows[0])
            self._require_epoch(locked.epoch)
            state = require_droppable_back(locked.row)
            properties = locked.row.properties.items()
            kept = {key: value for key, value in properties if key not in _DROPPED}
            tx.execute("set_state", table_id=row.table_id, state=str(state))
            tx.execute("set_properties", table_id=row.table_id, properties=dump_values(kept))
            crash_point("before-undrop-commit")

    def purge(self, row: TableRow) -> list[str]:
        """Take a table out of the catalog with the rows of its files; return their keys.

        Raises:
            OwnershipError, TableStateError, TableNotFoundError: the catalog or the table changed,
                or another table refers to its files.
        """
        place = Place(row.table_id, row.location, row.location_key)
        with self.database.write() as tx:
            locked = self._lock(tx, row)
            key = next(neighbours_keys(tx, place), None)
            if key is not None:
                raise TableStateError(
                    f"Another table refers to {key} of {row.full_name}; it cannot be purged.",
                    hint="Drop the clones first, or drop this table without purge.",
                    table=row.full_name,
                )
            others = tuple(f"{folder}/" for folder in nested_folders(tx, place))
            found = own_keys(place, tx.fetch_all("all_paths", table_id=row.table_id))
            keys = sorted({key for key in found if not key.startswith(others)})
            self._take_out(tx, locked)
            # from now on no commit of another table may refer to these objects
            tx.execute("set_purged", table_id=row.table_id)
            for name in ("purge_leases", *PURGE):
                tx.execute(name, table_id=row.table_id)
            crash_point("before-drop-commit")
        return keys

    def _lock(self, tx: DbTransaction, row: TableRow) -> TableRow:
        rows = tx.fetch_all("lock_table", table_id=row.table_id)
        locked = locked_table(rows[0]) if rows else None
        if locked is None or locked.row.state is TableState.DELETED:
            raise TableNotFoundError(
                f"There is no table {row.full_name!r} in the catalog.", table=row.full_name
            )
        self._require_epoch(locked.epoch)
        if locked.row.state is not row.state:
            raise TableStateError(
                f"Table {row.full_name} was {row.state} and is {locked.row.state} now.",
                hint="Look at it again before you drop it.",
                table=row.full_name,
            )
        return locked.row

    def _require_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise OwnershipError(
                f"The catalog was recovered under epoch {epoch}; this process has {self.epoch}.",
                hint="Open the catalog again.",
            )

    def _take_out(self, tx: DbTransaction, row: TableRow) -> None:
        noted = {DROPPED_AT: str(tx.now_ms()), DROPPED_STATE: str(row.state)}
        properties = dump_values(row.properties | noted)
        tx.execute("set_state", table_id=row.table_id, state=str(TableState.DELETED))
        tx.execute("set_properties", table_id=row.table_id, properties=properties)
        for name in _END_WORK:
            tx.execute(name, table_id=row.table_id)


def require_droppable_back(row: TableRow) -> TableState:
    """Return the state in which a dropped table comes back.

    Raises:
        TableStateError: it is not dropped, or its rows are not complete.
    """
    if row.state is not TableState.DELETED:
        raise TableStateError(
            f"Table {row.full_name} ({row.table_id}) is not dropped; it is {row.state}.",
            table=row.full_name,
        )
    if row.is_purged:
        raise TableStateError(
            f"Table {row.full_name} ({row.table_id}) was purged: its files and its log are gone.",
            hint="Restore its folder and the database from a backup.",
            table=row.full_name,
        )
    state = row.state_before_drop
    if state is None:
        raise TableStateError(
            f"Table {row.full_name} ({row.table_id}) was replaced by a new import, or dropped by "
            "an older deltasql: SQL no longer has all that it needs to come back.",
            hint=f"Bring it back from its log: `deltasql import {row.location}`.",
            table=row.full_name,
        )
    return state
