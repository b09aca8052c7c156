"""Give contested numbers to the commits of others, and ours the numbers above them.

One transaction under the table's row lock: the commits of SQL from the first contested number on
are kept as they were, the book is rolled back, the found commits are adopted with their bytes as
they are, and ours follow, rebased by Delta's rules. If one of ours cannot be, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from deltasql.catalog.adopt import FoundCommit, insert_found
from deltasql.catalog.commit_encode import EncodedCommit
from deltasql.catalog.commit_request import CommitNote, CommitRequest
from deltasql.catalog.commit_rows import VersionPlan, insert_version, partition_text
from deltasql.catalog.database import Database, Work
from deltasql.catalog.definitions import DefinitionCache, change_indexed_columns
from deltasql.catalog.history import HistoryEntry, history_entry
from deltasql.catalog.payloads import read_payload
from deltasql.catalog.rebased import renumberings, with_renumbering
from deltasql.catalog.rollback import roll_back
from deltasql.catalog.rows import TableRow, TableState, table_row
from deltasql.catalog.settings_rows import keep_settings
from deltasql.catalog.stats_index import usable_columns
from deltasql.crash import crash_point
from deltasql.errors import OwnershipError, RebaseError, TableNotFoundError, TableStateError
from deltasql.protocol.actions import Action, Add, CommitInfo, Metadata, Remove
from deltasql.protocol.codec import decode_commit, digest, dump_values, serialize_actions
from deltasql.protocol.conflicts import ReadSet, Winner
from deltasql.protocol.properties import read_bool
from deltasql.protocol.rebase import find_obstacle, rebased_info

_CONTESTED = (TableState.ACTIVE, TableState.CONFLICT)


@dataclass(frozen=True, slots=True)
class Move:
    """A commit of SQL, the number it gets, and what stands in its way."""

    entry: HistoryEntry
    new_version: int
    obstacle: str | None

    @property
    def old_version(self) -> int:
        """The number under which it was acknowledged."""
        return self.entry.version


@dataclass(frozen=True, slots=True)
class RenumberPlan:
    """Which found commits take which numbers, and where ours go."""

    table: str
    found: tuple[FoundCommit, ...]
    moves: tuple[Move, ...]

    @property
    def first(self) -> int:
        """The lowest contested number."""
        return self.found[0].version

    @property
    def is_possible(self) -> bool:
        """Tell whether every commit of ours finds its place."""
        return all(move.obstacle is None for move in self.moves)

    def require(self) -> None:
        """Refuse a plan that would lose, double or bend a commit.

        Raises:
            RebaseError: names the commit, who made it and what stands in its way.
        """
        move = next((move for move in self.moves if move.obstacle is not None), None)
        if move is None:
            return
        entry = move.entry
        who = f" by {entry.committer}" if entry.committer else ""
        raise RebaseError(
            f"Version {entry.version} of {self.table} ({entry.operation}{who}) cannot become "
            f"version {move.new_version}: {move.obstacle}.",
            table=self.table,
            version=entry.version,
            commit_id=entry.commit_id,
            operation=entry.operation,
            committer=entry.committer,
        )


@dataclass(frozen=True, slots=True)
class Renumberer:
    """Renumbers tables of one catalog; the numbers of others, as they know them, are void then."""

    database: Database
    epoch: int

    def plan(self, row: TableRow, found: Sequence[FoundCommit]) -> RenumberPlan:
        """Return what `renumber` would do now; changes nothing."""
        with self.database.read() as work:
            return _plan(work, row, found)

    def renumber(self, table_id: str, found: Sequence[FoundCommit], *, now: int) -> RenumberPlan:
        """Make the found commits the table's versions and move ours above them, all or nothing.

        The caller has seen that the log is equal to SQL below the first of them, and ends with
        the last of them. The table is active afterwards.

        Raises:
            RebaseError: a commit of ours cannot be moved; nothing was changed.
        """
        with self.database.write() as work:
            row, clock = self._lock(work, table_id, found[0].version)
            plan = _plan(work, row, found)
            plan.require()
            _Renumbering(self.database, work, plan, row, max(clock, row.last_ict + 1)).run(now)
            crash_point("before-renumber-commit")
        crash_point("after-renumber-commit")
        return plan

    def _lock(self, work: Work, table_id: str, first: int) -> tuple[TableRow, int]:
        rows = work.rows("lock_table", table_id=table_id)
        if not rows:
            raise TableNotFoundError(f"There is no table with the id {table_id}.")
        *values, epoch, clock = rows[0]
        row = table_row(tuple(values))
        if int(epoch) != self.epoch:
            raise OwnershipError(
                f"The catalog was recovered under epoch {epoch}; this process has {self.epoch}.",
                hint="Open the catalog again.",
            )
        if row.state not in _CONTESTED or not row.oldest_version < first <= row.current_version:
            raise TableStateError(
                f"Table {row.full_name} is {row.state} at {row.current_version}; its versions "
                f"from {first} on cannot be renumbered.",
                table=row.full_name,
                version=first,
            )
        return row, int(clock) or work.now_ms()


def _plan(work: Work, row: TableRow, found: Sequence[FoundCommit]) -> RenumberPlan:
    first, count = found[0].version, row.current_version - found[0].version + 1
    rows = work.rows("history", table_id=row.table_id, upto=row.current_version, most=count)
    entries = sorted((history_entry(values) for values in rows), key=lambda one: one.version)
    winners = [Winner(one.version, one.operation, one.commit_id, one.actions) for one in found]
    common = _common_obstacle(work, row, first) or _twin(work, row, found, entries)
    moves = []
    for entry in entries:
        actions = _actions(work, row.table_id, entry.version)
        blind = _is_blind(entry, actions)
        obstacle = common or find_obstacle(actions, entry.version, winners, is_blind=blind)
        moves.append(Move(entry, entry.version + len(found), obstacle))
    return RenumberPlan(row.full_name, tuple(found), tuple(moves))


def _common_obstacle(work: Work, row: TableRow, first: int) -> str | None:
    if first <= row.oldest_version:
        return "nothing can stand below the table's oldest version"
    if work.rows("vacuumed_above", table_id=row.table_id, version=first - 1)[0][0]:
        return "vacuum has deleted files that these versions removed"
    return None


def _twin(
    work: Work, row: TableRow, found: Sequence[FoundCommit], entries: Sequence[HistoryEntry]
) -> str | None:
    """A found commit that SQL has too, under any number, would be there twice."""
    ours = {entry.digest: entry.version for entry in entries}
    for one in found:
        rows = work.rows("version_by_commit_id", table_id=row.table_id, commit_id=one.commit_id)
        version = rows[0][0] if rows else ours.get(digest(one.payload))
        if version is not None:
            return f"version {one.version} of the log is the commit that SQL has as {version}"
    return None


def _is_blind(entry: HistoryEntry, actions: Sequence[Action]) -> bool:
    """A commit of ours says so by what it read; one that was adopted only by its own word."""
    if entry.origin == "commit":
        return entry.is_blind_append
    return entry.is_blind_append and _info(actions).is_blind_append is True


def _actions(work: Work, table_id: str, version: int) -> tuple[Action, ...]:
    payload = read_payload(work, table_id, version)
    return tuple(decode_commit(payload, version=version, lenient=True))


def _info(actions: Sequence[Action]) -> CommitInfo:
    return next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo())


@dataclass(slots=True)
class _Renumbering:
    """One renumbering under way, inside its transaction; its definitions are nobody else's."""

    database: Database
    work: Work
    plan: RenumberPlan
    row: TableRow
    timestamp: int

    def run(self, now: int) -> None:
        own = [
            (move, _actions(self.work, self.row.table_id, move.old_version))
            for move in self.plan.moves
        ]
        mirrored = min(self.row.mirrored_through, self.plan.first - 1)
        self._keep(now)
        self.row = roll_back(self.work, self.row.table_id, self.plan.first - 1)
        cache = DefinitionCache()
        for found in self.plan.found:
            ids = self._file_ids(found.num_adds)
            insert_found(self.work, self.database, self.row, found, (cache, ids))
            self._read_row()
        for move, actions in own:
            self._insert_own(move, actions, cache)
            self._read_row()
        place = {"first": mirrored + 1, "last": self.plan.found[-1].version}
        table_id = self.row.table_id
        self.work.run("mirror_range", table_id=table_id, **place, now=now, digest=None)
        self.work.run("advance_mirrored_range", table_id=table_id, **place, digest=None)
        properties = dump_values(with_renumbering(self.row.properties))
        self.work.run("set_properties", table_id=table_id, properties=properties)
        self.work.run("set_state", table_id=table_id, state=str(TableState.ACTIVE))

    def _keep(self, now: int) -> None:
        """Keep what goes: the old numbers stay findable, with their exact bytes."""
        number = renumberings(self.row.properties) + 1
        place = {"table_id": self.row.table_id, "version": self.plan.first - 1}
        shift = len(self.plan.found)
        self.work.run("keep_rebased_commits", **place, renumbering=number, shift=shift, now=now)
        self.work.run("keep_rebased_chunks", **place, renumbering=number)

    def _insert_own(self, move: Move, actions: tuple[Action, ...], cache: DefinitionCache) -> None:
        definition = cache.load(self.work, self.row)
        metadata = next((a for a in actions if isinstance(a, Metadata)), None)
        indexed = definition.indexed
        if metadata is not None:
            indexed = change_indexed_columns(
                self.work,
                self.row.table_id,
                move.new_version,
                metadata,
                usable_columns(metadata),
            )
        after = metadata or definition.metadata
        has_own_time = read_bool(after.configuration, "delta.enableInCommitTimestamps")
        self.timestamp = max(self.timestamp, self.row.last_ict + 1)
        commit = self._encode(move, actions, has_own_time=has_own_time)
        texts = {partition_text(add) for add in commit.adds}
        plan = VersionPlan(
            self._request(move, commit),
            commit,
            move.new_version,
            self.timestamp,
            move.entry.transaction_id,
            file_ids=self._file_ids(len(commit.adds)),
            indexed=indexed,
            new_partitions=cache.new_partitions(self.row.table_id, texts),
            supersede=True,
            origin=move.entry.origin,
        )
        insert_version(self.work, self.database, plan)
        keep_settings(self.work, commit.actions, self.row)

    def _encode(
        self, move: Move, actions: tuple[Action, ...], *, has_own_time: bool
    ) -> EncodedCommit:
        info = rebased_info(
            _info(actions),
            move.old_version,
            move.new_version - move.old_version,
            first=self.plan.first,
            timestamp=self.timestamp,
            has_own_time=has_own_time,
        )
        if info.txn_id is None:  # adopted from a writer without tokens: from now on it has one
            info = msgspec.structs.replace(info, txn_id=move.entry.commit_id)
        rest = tuple(action for action in actions if not isinstance(action, CommitInfo))
        payload = serialize_actions((info, *rest))
        adds = tuple(action for action in rest if isinstance(action, Add))
        removes = tuple(action for action in rest if isinstance(action, Remove))
        blind = move.entry.is_blind_append
        return EncodedCommit((info, *rest), info, adds, removes, payload, digest(payload), blind)

    def _request(self, move: Move, commit: EncodedCommit) -> CommitRequest:
        return CommitRequest(
            self.row.table_id,
            commit.actions,
            ReadSet(move.new_version - 1),
            CommitNote(move.entry.operation, client=move.entry.client),
            move.entry.commit_id,
            state_after=self.row.state,
        )

    def _file_ids(self, count: int) -> range:
        if count == 0:
            return range(0)
        end = int(self.work.rows("take_ids", name="file_id", amount=count)[0][0])
        return range(end - count, end)

    def _read_row(self) -> None:
        values = self.work.rows("lock_table", table_id=self.row.table_id)[0]
        self.row = table_row(values)
