"""Take a commit that is in the log and not in SQL into the book, with its bytes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltasql.catalog.commit_encode import EncodedCommit
from deltasql.catalog.commit_request import CommitNote, CommitRequest
from deltasql.catalog.commit_rows import VersionPlan, insert_version, partition_text
from deltasql.catalog.database import Database, Work
from deltasql.catalog.definitions import DefinitionCache, change_indexed_columns
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.settings_rows import keep_settings
from deltasql.crash import crash_point
from deltasql.errors import TableNotFoundError, TableStateError
from deltasql.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove
from deltasql.protocol.codec import decode_commit, digest
from deltasql.protocol.conflicts import ReadSet, is_blind_append
from deltasql.protocol.features import require_readable

_ADOPTING = (TableState.ACTIVE, TableState.CONFLICT)


@dataclass(slots=True)
class Adopter:
    """Adopts commits of others into one catalog, one SQL transaction each."""

    database: Database
    cache: DefinitionCache
    file_ids: IdBlocks

    def adopt(self, table_id: str, version: int, payload: bytes, *, now: int) -> None:
        """Make the log's commit of the next number the table's own version of that number.

        Raises:
            TableStateError: the table is at another version, or takes no commits for good.
            MalformedActionError, UnsupportedFeatureError: it cannot be understood.
        """
        actions = tuple(decode_commit(payload, version=version, lenient=True))
        ids = self.file_ids.take(sum(isinstance(action, Add) for action in actions))
        with self.database.write() as work:
            row = self._lock(work, table_id, version)
            plan = self._plan(work, row, (version, actions, payload), ids)
            insert_version(work, self.database, plan)
            keep_settings(work, plan.commit.actions, row)
            place = {"table_id": table_id, "first": version, "last": version}
            work.run("mirror_range", **place, now=now)
            work.run("advance_mirrored_range", **place)
            crash_point("before-adopt-commit")
        crash_point("after-adopt-commit")

    def _lock(self, work: Work, table_id: str, version: int) -> TableRow:
        rows = work.rows("lock_table", table_id=table_id)
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {table_id}.")
        row = table_row(rows[0])
        if row.state not in _ADOPTING or row.current_version != version - 1:
            raise TableStateError(
                f"Table {row.full_name} is {row.state} at {row.current_version}; version {version} "
                "cannot be adopted.",
                table=row.full_name,
                version=version,
            )
        return row

    def _plan(
        self,
        work: Work,
        row: TableRow,
        found: tuple[int, tuple[Action, ...], bytes],
        ids: Sequence[int],
    ) -> VersionPlan:
        version, actions, payload = found
        definition = self.cache.load(work, row)
        protocol = next((a for a in actions if isinstance(a, Protocol)), definition.protocol)
        require_readable(protocol, row.full_name)
        metadata = next((a for a in actions if isinstance(a, Metadata)), None)
        indexed = definition.indexed
        if metadata is not None:
            indexed = change_indexed_columns(work, row.table_id, version, metadata)
        info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo())
        commit = _encoded(actions, info, payload, version)
        told = info.in_commit_timestamp or info.timestamp or 0
        texts = {partition_text(add) for add in commit.adds}
        return VersionPlan(
            _request(row, version, commit),
            commit,
            version,
            max(told, row.last_ict + 1),
            None,
            file_ids=ids,
            indexed=indexed,
            new_partitions=self.cache.new_partitions(row.table_id, texts),
            supersede=True,
            origin="adopted",
        )


def _encoded(
    actions: tuple[Action, ...], info: CommitInfo, payload: bytes, version: int
) -> EncodedCommit:
    adds = tuple(action for action in actions if isinstance(action, Add))
    removes = tuple(action for action in actions if isinstance(action, Remove))
    blind = is_blind_append(actions, ReadSet(version - 1))
    return EncodedCommit(actions, info, adds, removes, payload, digest(payload), blind)


def _request(row: TableRow, version: int, commit: EncodedCommit) -> CommitRequest:
    """The commit's own token is kept: whoever sends it again finds that it was made."""
    token = commit.info.txn_id
    operation = commit.info.operation
    return CommitRequest(
        row.table_id,
        commit.actions,
        ReadSet(version - 1),
        CommitNote(str(operation) if operation else "UNKNOWN"),
        str(token) if token else f"adopted-{version}-{commit.digest[:16]}",
        state_after=row.state,
    )
