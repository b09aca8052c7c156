"""Take a commit that is in the log and not in SQL into the book, with its bytes as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from deltasql.catalog.commit_encode import TRANSACTION_KEY, EncodedCommit
from deltasql.catalog.commit_request import CommitNote, CommitRequest
from deltasql.catalog.commit_rows import VersionPlan, insert_version, partition_text
from deltasql.catalog.database import Database, Work
from deltasql.catalog.definitions import (
    DefinitionCache,
    TableDefinition,
    change_indexed_columns,
)
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.settings_rows import keep_settings
from deltasql.catalog.stats_index import usable_columns
from deltasql.catalog.vacuum_check import check_vacuum
from deltasql.crash import crash_point
from deltasql.errors import MalformedActionError, TableNotFoundError, TableStateError
from deltasql.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove
from deltasql.protocol.codec import decode_commit, digest
from deltasql.protocol.conflicts import ReadSet, is_blind_append
from deltasql.protocol.features import require_readable

_ADOPTING = (TableState.ACTIVE, TableState.CONFLICT)


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit that the log holds, understood."""

    version: int
    actions: tuple[Action, ...] = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def read(cls, version: int, payload: bytes) -> FoundCommit:
        """Return the commit in a file's bytes.

        Raises:
            MalformedActionError: it cannot be understood.
        """
        return cls(version, tuple(decode_commit(payload, version=version, lenient=True)), payload)

    @property
    def info(self) -> CommitInfo:
        """What the commit tells of itself."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def operation(self) -> str:
        """What the commit did, in its own word."""
        return str(self.info.operation) if self.info.operation else "UNKNOWN"

    @property
    def commit_id(self) -> str:
        """Its own token, so that whoever sends it again finds that it was made."""
        token = self.info.txn_id
        return str(token) if token else f"adopted-{self.version}-{digest(self.payload)[:16]}"

    @property
    def told_time(self) -> int:
        """When it was made, in its own word; 0 if it does not tell."""
        return self.info.in_commit_timestamp or self.info.timestamp or 0

    @property
    def transaction_id(self) -> str | None:
        """The transaction over several tables that it was a part of, if it was one of ours."""
        found = (self.info.extra or {}).get(TRANSACTION_KEY)
        return found if isinstance(found, str) else None

    @property
    def num_adds(self) -> int:
        """How many files it adds."""
        return sum(isinstance(action, Add) for action in self.actions)


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
        found = FoundCommit.read(version, payload)
        ids = self.file_ids.take(found.num_adds)
        with self.database.write() as work:
            row = self._lock(work, table_id, version)
            insert_found(work, self.database, row, found, (self.cache, ids))
            place = {"table_id": table_id, "first": version, "last": version}
            work.run("mirror_range", **place, now=now, digest=None)
            work.run("advance_mirrored_range", **place, digest=None)
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


def insert_found(
    work: Work,
    database: Database,
    row: TableRow,
    found: FoundCommit,
    means: tuple[DefinitionCache, Sequence[int]],
    *,
    origin: str = "adopted",
) -> None:
    """Under the row lock: write a found commit as the table's next version, as it is.

    `means` are the definitions to look up and one file id per add.
    """
    cache, ids = means
    definition = _definition_before(work, row, found, cache)
    protocol = next((a for a in found.actions if isinstance(a, Protocol)), definition.protocol)
    require_readable(protocol, row.full_name)
    metadata = next((a for a in found.actions if isinstance(a, Metadata)), None)
    indexed = definition.indexed
    if metadata is not None:
        indexed = change_indexed_columns(
            work, row.table_id, found.version, metadata, usable_columns(metadata)
        )
    commit = _encoded(found)
    texts = {partition_text(add) for add in commit.adds}
    request = _request(row, found)
    check_vacuum(work, row, request)
    plan = VersionPlan(
        request,
        commit,
        found.version,
        max(found.told_time, row.last_ict + 1),
        found.transaction_id,
        file_ids=ids,
        indexed=indexed,
        new_partitions=sorted(texts),
        supersede=True,
        origin=origin,
    )
    insert_version(work, database, plan)
    own_time = found.info.in_commit_timestamp
    if own_time is not None and own_time != plan.timestamp:
        # Delta's readers go by the commit's own time, though it is not later than the one before.
        place = {"table_id": row.table_id, "version": found.version}
        work.run("backdate_version", **place, committed_at=own_time)
    keep_settings(work, found.actions, row)


def _definition_before(
    work: Work, row: TableRow, found: FoundCommit, cache: DefinitionCache
) -> TableDefinition:
    """The first version brings its own rules."""
    if row.current_version >= row.first_version:
        return cache.load(work, row)
    protocol = next((a for a in found.actions if isinstance(a, Protocol)), None)
    metadata = next((a for a in found.actions if isinstance(a, Metadata)), None)
    if protocol is None or metadata is None:
        raise MalformedActionError(
            f"Version {found.version} of {row.full_name} is its first and has no protocol or "
            "metadata.",
            hint="The first version of a log brings both; restore it from a backup.",
            version=found.version,
        )
    return TableDefinition(protocol, metadata, ())


def _encoded(found: FoundCommit) -> EncodedCommit:
    actions = found.actions
    adds = tuple(action for action in actions if isinstance(action, Add))
    removes = tuple(action for action in actions if isinstance(action, Remove))
    blind = is_blind_append(actions, ReadSet(found.version - 1))
    made = digest(found.payload)
    return EncodedCommit(actions, found.info, adds, removes, found.payload, made, blind)


def _request(row: TableRow, found: FoundCommit) -> CommitRequest:
    return CommitRequest(
        row.table_id,
        found.actions,
        ReadSet(found.version - 1),
        CommitNote(found.operation),
        found.commit_id,
        state_after=row.state,
    )
