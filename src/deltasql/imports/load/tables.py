"""A table that comes into the catalog with its past: from its first row to its state afterwards.

The table is `importing`, which nobody sees, until the last version is in; what was imported before
a crash stays, and the next run goes on behind it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction, UniqueViolationError
from deltasql.errors import (
    MalformedActionError,
    TableExistsError,
    TableNotFoundError,
    TableStateError,
)
from deltasql.imports.load.bulk_load import BulkLoad, Segment, StateFiles, delete_unfinished
from deltasql.imports.load.stats_fill import StatsFill
from deltasql.imports.load.window import VersionWindow
from deltasql.metastore.dropping import PURGE
from deltasql.metastore.id_blocks import IdBlocks
from deltasql.metastore.log_state import erase_rows
from deltasql.metastore.retention import Forgetting
from deltasql.metastore.table_row import NewTable, TableRow, TableState, insert_table, table_row
from deltasql.protocol.codec import dump_values


@dataclass(frozen=True, slots=True)
class Swap:
    """A table that an import replaces, and the name and place that it takes from it."""

    old_id: str
    place: NewTable


@dataclass(slots=True)
class Importing:
    """Writes the versions of logs into one catalog."""

    database: Database
    file_ids: IdBlocks
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def into(cls, database: Database) -> Importing:
        """Return what writes into this catalog."""
        return cls(database, IdBlocks(database, "file_id"))

    def begin(self, new: NewTable, first_version: int) -> TableRow:
        """Register a table whose oldest version is `first_version`; go on where one was begun.

        Raises:
            TableExistsError: the name, the place or the id belongs to another table.
        """
        try:
            with self.database.write() as tx:
                rows = tx.fetch_all("lock_table", table_id=new.table_id)
                if rows:
                    return _require_begun(table_row(rows[0]), new, first_version)
                insert_table(tx, new, state=TableState.IMPORTING, first_version=first_version)
                row = table_row(tx.fetch_all("lock_table", table_id=new.table_id)[0])
                crash_point("before-import-begins")
        except UniqueViolationError as error:
            raise TableExistsError(
                f"The name {new.name} or the location {new.location} is taken.",
                hint="Another import has begun meanwhile; see `deltasql tables`.",
                table=new.name,
            ) from error
        return row

    def settle(self, table_id: str, checkpoint: str | None) -> None:
        """Delete what an earlier run has left of a segment, or of another checkpoint's state.

        A run that is still at work is refused from then on.
        """
        with self.database.write() as tx:
            row = _locked(tx, table_id)
            segment, begun, _ = _progress(tx, table_id)
            is_other = row.current_version < row.first_version and begun not in (None, checkpoint)
            if segment is not None or is_other:
                delete_unfinished(tx, table_id, row.current_version)
                tx.execute("end_import", table_id=table_id)
            crash_point("before-import-settled")

    def segment(self, table_id: str, segment: Segment, notes: dict[str, Any]) -> None:
        """Write whole versions in one transaction, each as its file says."""
        self._load(table_id).segment(segment, notes)

    def state_part(self, table_id: str, part: StateFiles, notes: dict[str, Any]) -> None:
        """Write a part of the state that the oldest version begins with."""
        self._load(table_id).state_part(part, notes)

    def adopt(self, table_id: str, window: VersionWindow, *, now: int) -> None:
        """Write versions of the log of a table that takes commits."""
        self._load(table_id).adopt(window, now=now)

    def parts_done(self, table_id: str, checkpoint: str) -> int:
        """Return how many parts of a checkpoint's state are in."""
        _, begun, parts = _progress(self.database, table_id)
        return parts if begun == checkpoint else 0

    def _load(self, table_id: str) -> BulkLoad:
        return BulkLoad(self.database, table_id, self.file_ids, self.run_id)

    def finish(self, table_id: str, state: TableState, swap: Swap | None = None) -> TableRow:
        """Show the table, whose log is in the catalog as a whole; it may replace another one.

        Raises:
            TableStateError: the table that it replaces has commits that are not in its log.
            MalformedActionError: the log has no protocol or no metadata.
        """
        with self.database.write() as tx:
            row = _locked(tx, table_id)
            if row.metadata_version < 0 or row.protocol_version < 0:
                missing = "metaData" if row.metadata_version < 0 else "protocol"
                raise MalformedActionError(
                    f"The log at {row.location} has no {missing}.",
                    hint="The first version brings both; restore it from a backup.",
                )
            if _progress(tx, table_id)[0] is not None:
                # another run had begun with later versions; it is refused from now on
                delete_unfinished(tx, table_id, row.current_version)
            # a commit that was gone when we came cannot be asked for
            tx.execute("skip_lost_commit", table_id=table_id)
            # nor can one whose version SQL has dropped
            tx.execute("raise_log_floor", table_id=table_id, floor=row.oldest_version)
            if swap is not None:
                _swap(tx, table_id, swap)
            if row.state is TableState.IMPORTING:
                tx.execute("set_state", table_id=table_id, state=str(state))
                tx.execute("end_import", table_id=table_id)
            row = _locked(tx, table_id)
            crash_point("before-import-ends")
        crash_point("after-import-ends")
        return row

    def drop_below(self, row: TableRow, version: int, *, tombstones: timedelta) -> TableRow:
        """Drop the history below a version of a table that is whole; safe to repeat after a crash.

        Tombstones stay as long as checkpoints of the versions that remain need them.

        Raises:
            TableStateError: the table is not being imported, or has not come to the version.
        """
        if row.state is not TableState.IMPORTING or row.current_version < version:
            raise TableStateError(
                f"Table {row.full_name} is {row.state} at version {row.current_version}; the "
                f"history below version {version} cannot be dropped.",
                table=row.full_name,
                version=version,
            )
        crash_point("before-import-dropped")
        forgetting = Forgetting(self.database)
        forgetting.run(row, forgetting.plan_below(row, version, tombstones=tombstones))
        crash_point("after-import-dropped")
        with self.database.read() as tx:
            return table_row(tx.fetch_all("table_by_id", table_id=row.table_id)[0])

    def index(self, table_id: str, stop: Event | None = None) -> int:
        """Index the statistics of the live files, so that plans need not read all of them.

        When `stop` is set the table is left without an index.
        """
        return StatsFill(self.database, stop or Event()).run(table_id)

    def note(self, table_id: str, notes: dict[str, Any]) -> TableRow:
        """Write notes into the table's `import_metadata`."""
        with self.database.write() as tx:
            row = _locked(tx, table_id)
            kept = row.properties.get("import_metadata", {}) | notes
            properties = dump_values(row.properties | {"import_metadata": kept})
            tx.execute("set_properties", table_id=table_id, properties=properties)
            crash_point("before-import-noted")
            return _locked(tx, table_id)

    def erase(self, table_id: str) -> None:
        """Forget an import that is given up; a table that is more than that stays.

        Raises:
            TableStateError: it is not being imported.
        """
        with self.database.write() as tx:
            row = _locked(tx, table_id)
            if row.state is not TableState.IMPORTING:
                raise TableStateError(f"Table {row.full_name} is {row.state}, not importing.")
            erase_rows(tx, table_id)
            crash_point("before-import-erased")

    def give_up(self, table_id: str) -> None:
        """Forget an import without a version, unless another run is at work on it."""
        with self.database.write() as tx:
            row = _locked(tx, table_id)
            segment = _progress(tx, table_id)[0]
            is_ours = segment is None or segment.startswith(self.run_id)
            is_empty = row.current_version < row.first_version
            if row.state is TableState.IMPORTING and is_empty and is_ours:
                erase_rows(tx, table_id)
                crash_point("before-import-erased")


def _progress(read: Database | DbTransaction, table_id: str) -> tuple[str | None, str | None, int]:
    """Return the segment and the checkpoint that are being loaded, and how many parts are in."""
    rows = read.fetch_all("import_progress", table_id=table_id)
    return rows[0] if rows else (None, None, 0)


def _swap(tx: DbTransaction, table_id: str, swap: Swap) -> None:
    old = _locked(tx, swap.old_id)
    _require_mirrored(old)
    tx.execute("set_state", table_id=swap.old_id, state=str(TableState.DELETED))
    for name in PURGE:
        tx.execute(name, table_id=swap.old_id)
    tx.execute(
        "move_table",
        table_id=table_id,
        namespace=swap.place.namespace,
        name=swap.place.name,
        location_key=swap.place.location_key,
    )
    crash_point("before-import-replaces")


def _require_mirrored(row: TableRow) -> None:
    if row.mirrored_through < row.current_version:
        raise TableStateError(
            f"Table {row.full_name} has commits that are not in its log; it cannot be replaced.",
            hint="Mirror it first with `catalog.mirror.run_once()`.",
            table=row.full_name,
        )


def _locked(tx: DbTransaction, table_id: str) -> TableRow:
    rows = tx.fetch_all("lock_table", table_id=table_id)
    if not rows:
        raise TableNotFoundError(
            f"There is no table with the id {table_id}.",
            hint="It was dropped meanwhile, or another import by force has begun.",
        )
    return table_row(rows[0])


def _require_begun(row: TableRow, new: NewTable, first_version: int) -> TableRow:
    same = row.location_key == new.location_key and row.name == new.name
    if row.state is not TableState.IMPORTING or not same or row.first_version != first_version:
        raise TableExistsError(
            f"There is a table {row.full_name} of this id already, in state {row.state}.",
            table=row.full_name,
        )
    return row
