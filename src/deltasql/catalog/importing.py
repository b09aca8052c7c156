"""A table that comes into the book with its past: versions of a log, in order, as they are.

The table is `importing` until the last of them is in; what was imported before a crash stays, and
the next run goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltasql.catalog.adopt import FoundCommit, insert_found
from deltasql.catalog.commit_encode import EncodedCommit
from deltasql.catalog.commit_request import CommitNote, CommitRequest
from deltasql.catalog.commit_rows import VersionPlan, insert_version, partition_text
from deltasql.catalog.commits import NewTable, insert_table
from deltasql.catalog.database import Database, UniqueViolationError, Work
from deltasql.catalog.definitions import DefinitionCache, change_indexed_columns
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.settings_rows import keep_settings
from deltasql.crash import crash_point
from deltasql.errors import MalformedActionError, TableExistsError, TableStateError
from deltasql.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove
from deltasql.protocol.codec import digest
from deltasql.protocol.conflicts import ReadSet
from deltasql.protocol.features import require_readable

ORIGIN = "import"


@dataclass(slots=True)
class Importing:
    """Writes the versions of logs into one catalog."""

    database: Database
    file_ids: IdBlocks

    def begin(self, new: NewTable, first_version: int) -> TableRow:
        """Register a table whose oldest version is `first_version`; go on where one was begun.

        Raises:
            TableExistsError: the name, the place or the id belongs to another table.
        """
        with self.database.write() as work:
            rows = work.rows("lock_table", table_id=new.table_id)
            if rows:
                return _require_begun(table_row(rows[0]), new, first_version)
            try:
                insert_table(work, new, state=TableState.IMPORTING, first_version=first_version)
                row = table_row(work.rows("lock_table", table_id=new.table_id)[0])
            except UniqueViolationError as error:
                raise TableExistsError(
                    f"The name {new.name} or the location {new.location} is taken.", table=new.name
                ) from error
            crash_point("before-import-begins")
        return row

    def head(self, table_id: str, found: FoundCommit, state: Iterable[Action], *, now: int) -> None:
        """Write the oldest version of a log whose beginning is gone, with a checkpoint's state."""
        actions = (found.info, *state)
        ids = self.file_ids.take(sum(isinstance(action, Add) for action in actions))
        with self.database.write() as work:
            row = _lock(work, table_id, found.version - 1)
            plan = _head_plan(work, row, found, actions, ids)
            insert_version(work, self.database, plan)
            keep_settings(work, actions, row)
            work.run(
                "set_version_counts", table_id=table_id, version=found.version, **_counts(found)
            )
            self._mirrored(work, table_id, found.version, found.version, now)
            crash_point("before-import-head")

    def versions(self, table_id: str, found: Sequence[FoundCommit], *, now: int) -> None:
        """Write whole versions in one transaction, each as its file says."""
        cache = DefinitionCache()
        ids = [self.file_ids.take(one.num_adds) for one in found]
        with self.database.write() as work:
            row = _lock(work, table_id, found[0].version - 1)
            for one, numbers in zip(found, ids, strict=True):
                insert_found(work, self.database, row, one, (cache, numbers), origin=ORIGIN)
                row = table_row(work.rows("lock_table", table_id=table_id)[0])
            self._mirrored(work, table_id, found[0].version, found[-1].version, now)
            crash_point("before-import-versions")
        crash_point("after-import-versions")

    def finish(self, table_id: str) -> None:
        """Let the table take commits: all of its log is in the book."""
        with self.database.write() as work:
            row = table_row(work.rows("lock_table", table_id=table_id)[0])
            if row.state is TableState.IMPORTING:
                work.run("set_state", table_id=table_id, state=str(TableState.ACTIVE))
            crash_point("before-import-ends")

    def _mirrored(self, work: Work, table_id: str, first: int, last: int, now: int) -> None:
        place = {"table_id": table_id, "first": first, "last": last, "digest": None}
        work.run("mirror_range", **place, now=now)
        work.run("advance_mirrored_range", **place)


def _head_plan(
    work: Work,
    row: TableRow,
    found: FoundCommit,
    actions: tuple[Action, ...],
    ids: Sequence[int],
) -> VersionPlan:
    protocol = next((a for a in actions if isinstance(a, Protocol)), None)
    metadata = next((a for a in actions if isinstance(a, Metadata)), None)
    if protocol is None or metadata is None:
        raise MalformedActionError(
            f"The checkpoint of version {found.version} has no protocol or metadata.",
            version=found.version,
        )
    require_readable(protocol, row.full_name)
    adds = tuple(action for action in actions if isinstance(action, Add))
    removes = tuple(action for action in actions if isinstance(action, Remove))
    commit = EncodedCommit(
        actions, found.info, adds, removes, found.payload, digest(found.payload), False
    )
    return VersionPlan(
        CommitRequest(
            row.table_id,
            actions,
            ReadSet(found.version - 1),
            CommitNote(found.operation),
            found.commit_id,
            state_after=row.state,
        ),
        commit,
        found.version,
        max(found.told_time, row.last_ict + 1),
        found.transaction_id,
        file_ids=ids,
        indexed=change_indexed_columns(work, row.table_id, found.version, metadata),
        new_partitions=sorted({partition_text(add) for add in adds}),
        supersede=False,
        origin=ORIGIN,
    )


def _counts(found: FoundCommit) -> dict[str, int]:
    """What the commit itself did; its rows are the whole state."""
    actions = [action for action in found.actions if not isinstance(action, CommitInfo)]
    adds = [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    return {
        "adds": len(adds),
        "removes": len(removes),
        "actions": len(found.actions),
        "bytes_added": sum(add.size for add in adds),
        "bytes_removed": sum(remove.size or 0 for remove in removes),
    }


def _lock(work: Work, table_id: str, version: int) -> TableRow:
    row = table_row(work.rows("lock_table", table_id=table_id)[0])
    begun = version if row.current_version >= row.first_version else row.current_version
    if row.state is not TableState.IMPORTING or row.current_version != begun:
        raise TableStateError(
            f"Table {row.full_name} is {row.state} at {row.current_version}; another import of it "
            "is at work.",
            table=row.full_name,
        )
    return row


def _require_begun(row: TableRow, new: NewTable, first_version: int) -> TableRow:
    same = row.location_key == new.location_key and row.name == new.name
    if row.state is not TableState.IMPORTING or not same or row.first_version != first_version:
        raise TableExistsError(
            f"There is a table {row.full_name} of this id already, in state {row.state}.",
            table=row.full_name,
        )
    return row
