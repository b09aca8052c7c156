"""Commit foreign commits of a log again, as new versions above those that SQL has given out.

One transaction under the table's row lock: every foreign commit gets its version, or none does.
Each has a token made of its number and its bytes, so a repair that is repeated commits nothing
twice. The table stays in conflict; the log is put right afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from deltasql.crash import crash_point
from deltasql.database.port import Database, DbTransaction
from deltasql.errors import (
    CommitConflictError,
    DeltaSqlError,
    InvalidCommitError,
    ProtocolError,
    RecommitError,
    TableNotFoundError,
    TableStateError,
    VacuumedError,
)
from deltasql.metastore.commit.check import WINNERS_AT_ONCE, CheckTerms, check_request, read_winners
from deltasql.metastore.commit.encode import CommitTime, FoundCommit, encode_commit
from deltasql.metastore.commit.insert import VersionPlan, insert_version, partition_text
from deltasql.metastore.commit.request import CommitNote, CommitRequest
from deltasql.metastore.id_blocks import IdBlocks, number_rows
from deltasql.metastore.references import is_absolute
from deltasql.metastore.snapshot.definition import DefinitionCache
from deltasql.metastore.table_row import LockedTable, TableRow, TableState, locked_table
from deltasql.protocol.actions import Action, Add, CommitInfo, Remove, file_key, hash_key, path_key
from deltasql.protocol.codec import digest
from deltasql.protocol.conflicts import (
    RECOMMITTED_KEY,
    ReadSet,
    find_obstacle,
    find_own_obstacle,
    says_blind,
)

# Raised by the checks of a normal commit that will never take these actions.
_REFUSALS = (CommitConflictError, InvalidCommitError, ProtocolError, VacuumedError)


@dataclass(frozen=True, slots=True)
class Recommit:
    """A foreign commit, the version of SQL that it becomes, and what stands in its way."""

    found: FoundCommit
    version: int
    was_made: bool
    obstacle: str | None


@dataclass(frozen=True, slots=True)
class RecommitPlan:
    """Which foreign commits become which versions of a table."""

    table: str
    commits: tuple[Recommit, ...]

    @property
    def is_possible(self) -> bool:
        """Tell whether every foreign commit can be committed again."""
        return all(commit.obstacle is None for commit in self.commits)

    def require(self) -> None:
        """Refuse a plan in which something stands in the way of a commit.

        Raises:
            RecommitError: names the commit and the reason.
        """
        for commit in self.commits:
            if commit.obstacle is not None:
                raise recommit_error(self.table, commit.found, commit.obstacle)


def recommit_error(table: str, found: FoundCommit, obstacle: str) -> RecommitError:
    """Return the refusal of a foreign commit."""
    who = f" by {found.info.user_name}" if found.info.user_name else ""
    return RecommitError(
        f"Version {found.version} in the log of {table} ({found.operation}{who}) cannot be "
        f"committed again: {obstacle}.",
        table=table,
        version=found.version,
        operation=found.operation,
    )


def recommit_token(found: FoundCommit) -> str:
    """Return the commit_id of a foreign commit: the same whenever the repair is repeated."""
    return f"recommitted-{found.version}-{digest(found.payload)[:32]}"


@dataclass(slots=True)
class Recommitter:
    """Commits foreign commits to the tables of one catalog."""

    database: Database
    epoch: int
    cache: DefinitionCache
    file_ids: IdBlocks

    def plan(self, row: TableRow, found: Sequence[FoundCommit]) -> RecommitPlan:
        """Return what `commit` would do now; changes nothing."""
        with self.database.read() as tx:
            locked = LockedTable(row, self.epoch, 0)
            return _Planner(tx, locked, self.epoch, self.cache).plan(found)

    def commit(self, table_id: str, found: Sequence[FoundCommit]) -> RecommitPlan:
        """Commit what was not committed before, in order; the table is in conflict and stays so.

        Raises:
            RecommitError: one of them cannot be committed; nothing was changed.
            TableStateError: somebody else has settled the conflict meanwhile.
        """
        ids = {one.version: self.file_ids.take(one.num_adds) for one in found}
        with self.database.write() as tx:
            locked = _lock_conflict(tx, table_id)
            plan = _Planner(tx, locked, self.epoch, self.cache).plan(found)
            plan.require()
            for commit in plan.commits:
                if not commit.was_made:
                    self._insert(tx, plan.table, commit, table_id, ids)
            crash_point("before-recommit-commit")
        crash_point("after-recommit-commit")
        return plan

    def _insert(
        self,
        tx: DbTransaction,
        table: str,
        commit: Recommit,
        table_id: str,
        ids: dict[int, range],
    ) -> None:
        locked = _lock_conflict(tx, table_id)
        definition = self.cache.load(tx, locked.row)
        request = _request(locked.row, commit.found)
        rules = (definition.protocol, definition.metadata)
        try:
            check_request(tx, _as_open(locked), request, terms=CheckTerms(self.epoch), table=rules)
            numbered = number_rows(tx, request, commit.version, definition)
        except _REFUSALS as error:
            raise recommit_error(table, commit.found, _clause(error)) from error
        timestamp = max(locked.now, locked.row.last_ict + 1)
        encoded = encode_commit(
            numbered, CommitTime(timestamp, definition.has_in_commit_timestamps, None)
        )
        texts = {partition_text(add) for add in encoded.adds}
        plan = VersionPlan(
            numbered,
            encoded,
            commit.version,
            timestamp,
            None,
            file_ids=ids[commit.found.version],
            indexed=definition.indexed,
            new_partitions=sorted(texts),
            supersede=False,
        )
        insert_version(tx, self.database, plan)


@dataclass(slots=True)
class _Planner:
    """Judges foreign commits by Delta's rules against what SQL has since the fork."""

    tx: DbTransaction
    locked: LockedTable
    epoch: int
    cache: DefinitionCache

    def plan(self, found: Sequence[FoundCommit]) -> RecommitPlan:
        row = self.locked.row
        made = {one.version: self._version_of(recommit_token(one)) for one in found}
        waiting = [one for one in found if made[one.version] is None]
        obstacles = self._conflicts(found, waiting)
        live = _LiveFiles.load(self.tx, row.table_id, waiting)
        common = self._forgotten(found)
        commits, last = [], row.current_version
        for one in found:
            version = made[one.version]
            if version is not None:
                commits.append(Recommit(one, version, was_made=True, obstacle=None))
                continue
            last += 1
            obstacle = common or self._obstacle(one) or obstacles.get(one.version)
            moved = live.apply(one.actions)
            commits.append(Recommit(one, last, was_made=False, obstacle=obstacle or moved))
        return RecommitPlan(row.full_name, tuple(commits))

    def _forgotten(self, found: Sequence[FoundCommit]) -> str | None:
        row = self.locked.row
        if found and found[0].version < row.oldest_version:
            return f"SQL has forgotten what came before version {row.oldest_version}"
        return None

    def _obstacle(self, one: FoundCommit) -> str | None:
        outside = next((a.path for a in _files(one.actions) if is_absolute(a.path)), None)
        if outside is not None:
            return f"its file {outside} is named by an absolute path, which is not looked up"
        return find_own_obstacle(one.actions) or self._twin(one) or self._refusal(one)

    def _twin(self, one: FoundCommit) -> str | None:
        """A foreign commit that SQL has too, under any number, would be there twice."""
        row = self.locked.row
        version = self._version_of(one.commit_id)
        if version is None:
            same = digest(one.payload)
            place = {"first": one.version, "last": row.current_version}
            rows = self.tx.fetch_all("digests", table_id=row.table_id, **place)
            version = next((number for number, found in rows if found == same), None)
        return None if version is None else f"it is the commit that SQL has as version {version}"

    def _refusal(self, one: FoundCommit) -> str | None:
        """What the normal commit would refuse: the table's rules, its applications, vacuum."""
        row = self.locked.row
        definition = self.cache.load(self.tx, row)
        try:
            check_request(
                self.tx,
                _as_open(self.locked),
                _request(row, one),
                terms=CheckTerms(self.epoch),
                table=(definition.protocol, definition.metadata),
            )
        except _REFUSALS as error:
            return _clause(error)
        return None

    def _conflicts(
        self, found: Sequence[FoundCommit], waiting: Sequence[FoundCommit]
    ) -> dict[int, str]:
        """Return what SQL has since the fork that contradicts a commit, by the commit's number.

        Versions that are foreign commits of this contest, committed before, are no winners: what
        follows them in the log has seen them.
        """
        row = self.locked.row
        tokens = {recommit_token(one) for one in found}
        obstacles: dict[int, str] = {}
        first = max(found[0].version, row.oldest_version) if found else 0
        for after in range(first - 1, row.current_version, WINNERS_AT_ONCE):
            through = min(after + WINNERS_AT_ONCE, row.current_version)
            winners = read_winners(self.tx, row.table_id, after, through)
            winners = [winner for winner in winners if winner.commit_id not in tokens]
            for one in waiting:
                obstacle = find_obstacle(one.actions, one.version, winners)
                if obstacle is not None:
                    obstacles.setdefault(one.version, obstacle)
        return obstacles

    def _version_of(self, token: str) -> int | None:
        table_id = self.locked.row.table_id
        rows = self.tx.fetch_all("version_by_commit_id", table_id=table_id, commit_id=token)
        return int(rows[0][0]) if rows else None


@dataclass(slots=True)
class _LiveFiles:
    """Which of the files that foreign commits name are live, commit by commit."""

    vectors: dict[str, set[str]]

    @classmethod
    def load(cls, tx: DbTransaction, table_id: str, found: Sequence[FoundCommit]) -> _LiveFiles:
        keys = sorted({path_key(action.path) for one in found for action in _files(one.actions)})
        vectors: dict[str, set[str]] = {key: set() for key in keys}
        if keys:
            hashes = [hash_key(key, "").hex() for key in keys]
            for path, dv_id in tx.fetch_all("live_identities", table_id=table_id, keys=hashes):
                vectors[path_key(path)].add(dv_id)
        return cls(vectors)

    def apply(self, actions: Sequence[Action]) -> str | None:
        """Take a commit's files in, or return what it contradicts.

        A path is live once at most, whatever its deletion vector: twice would double its rows.
        """
        files = list(_files(actions))
        for action in files:
            key, dv_id = file_key(action)
            if isinstance(action, Remove):
                if dv_id not in self.vectors[key]:
                    return f"it removes {action.path}, which is not part of the table in SQL"
                self.vectors[key].discard(dv_id)
        for action in files:
            key, dv_id = file_key(action)
            if isinstance(action, Add):
                if self.vectors[key]:
                    return f"it adds {action.path}, which is part of the table in SQL already"
                self.vectors[key].add(dv_id)
        return None


def _files(actions: Sequence[Action]) -> Iterator[Add | Remove]:
    return (action for action in actions if isinstance(action, Add | Remove))


def _lock_conflict(tx: DbTransaction, table_id: str) -> LockedTable:
    rows = tx.fetch_all("lock_table", table_id=table_id)
    if not rows:
        raise TableNotFoundError(f"There is no table with the id {table_id}.")
    locked = locked_table(rows[0])
    row = locked.row
    if row.state is not TableState.CONFLICT:
        raise TableStateError(
            f"Table {row.full_name} is {row.state}: its conflict was settled meanwhile.",
            hint="Nothing was changed. See `deltasql mirror verify`.",
            table=row.full_name,
        )
    return locked if locked.now else replace(locked, now=tx.now_ms())


def _as_open(locked: LockedTable) -> LockedTable:
    """The checks of a commit are made as if the conflict were over: this ends it."""
    return replace(locked, row=replace(locked.row, state=TableState.ACTIVE))


def _request(row: TableRow, found: FoundCommit) -> CommitRequest:
    """Return the commit as a request on the table's newest version."""
    extra = {**(found.info.extra or {}), RECOMMITTED_KEY: found.version}
    info = msgspec.structs.replace(found.info, extra=extra)
    rest = [_removed_now(a) for a in found.actions if not isinstance(a, CommitInfo)]
    return CommitRequest(
        row.table_id,
        (info, *rest),
        ReadSet(row.current_version, whole_table=not says_blind(found.actions)),
        CommitNote(found.operation),
        recommit_token(found),
        state_after=TableState.CONFLICT,
    )


def _removed_now(action: Action) -> Action:
    """A file ends with its new version: retention counts from then on."""
    if isinstance(action, Remove):
        return msgspec.structs.replace(action, deletion_timestamp=None)
    return action


def _clause(error: DeltaSqlError) -> str:
    return error.message.removesuffix(".")
