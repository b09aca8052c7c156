"""May a commit that read version R be placed above the commits that won since?

Delta's rules for Serializable; commits without data change are judged by SnapshotIsolation.

May a foreign commit be committed again above versions of SQL that it never saw? Pure. Delta's
rules for concurrent commits, with what is known of a foreign commit: its actions. What it read is
not recorded, so it counts as a reader of the whole table, unless the commit shows that it read
less.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    Remove,
    Txn,
    file_key,
)

# In commitInfo: the number that a foreign commit had in the log before it was committed again.
RECOMMITTED_KEY = "deltasqlRecommittedFrom"
_MOVABLE = CommitInfo | Add | Remove | Cdc | Txn


class Isolation(enum.StrEnum):
    """How much a commit's reads protect it."""

    SERIALIZABLE = "Serializable"
    SNAPSHOT = "SnapshotIsolation"


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a commit read of the table before it decided what to write.

    Nothing read at all makes a commit of adds a blind append. `matches` tells whether a file
    could hold rows of the predicate that was read; None with `whole_table` False means that only
    the named files were read.
    """

    version: int
    whole_table: bool = False
    matches: Callable[[Add], bool] | None = None
    files: frozenset[FileKey] = frozenset()
    app_ids: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was read."""
        return not (self.whole_table or self.matches or self.files or self.app_ids)


@dataclass(frozen=True, slots=True)
class Winner:
    """A commit that took a version after our read version."""

    version: int
    operation: str
    commit_id: str
    actions: Sequence[Action] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a commit cannot be placed above a winner."""

    reason: str
    subject: str
    winner: Winner

    def describe(self, operation: str, read_version: int) -> str:
        """Return one sentence that names both sides."""
        return (
            f"{operation} on version {read_version} conflicts with version {self.winner.version} "
            f"({self.winner.operation}): {self.reason} ({self.subject})."
        )


def is_blind_append(actions: Sequence[Action], read: ReadSet) -> bool:
    """Tell whether a commit only adds files and read nothing."""
    return read.is_empty and all(
        not isinstance(action, Remove | Metadata | Protocol | DomainMetadata | Cdc)
        for action in actions
    )


def isolation_of(actions: Sequence[Action]) -> Isolation:
    """Return the level for these actions: without data change, appends cannot disturb them."""
    files = [action for action in actions if isinstance(action, Add | Remove)]
    if files and not any(action.data_change for action in files):
        return Isolation.SNAPSHOT
    return Isolation.SERIALIZABLE


def find_conflict(
    actions: Sequence[Action], read: ReadSet, winners: Sequence[Winner]
) -> Conflict | None:
    """Return the first conflict with the winners, in version order, or None."""
    ours = _Ours.of(actions, read)
    for winner in winners:
        for action in winner.actions:
            conflict = ours.against(action)
            if conflict is not None:
                return Conflict(*conflict, winner)
    return None


@dataclass(frozen=True, slots=True)
class _Ours:
    read: ReadSet
    removed: frozenset[FileKey]
    added: frozenset[FileKey]
    domains: frozenset[str]
    app_ids: frozenset[str]
    isolation: Isolation

    @classmethod
    def of(cls, actions: Sequence[Action], read: ReadSet) -> _Ours:
        return cls(
            read,
            frozenset(file_key(a) for a in actions if isinstance(a, Remove)),
            frozenset(file_key(a) for a in actions if isinstance(a, Add)),
            frozenset(a.domain for a in actions if isinstance(a, DomainMetadata)),
            read.app_ids | {a.app_id for a in actions if isinstance(a, Txn)},
            isolation_of(actions),
        )

    def against(self, action: Action) -> tuple[str, str] | None:  # noqa: PLR0911 (one per rule)
        match action:
            case Protocol():
                return "it changed the table's protocol", "protocol"
            case Metadata():
                return "it changed the table's metadata", "metaData"
            case DomainMetadata(domain=domain) if domain in self.domains:
                return "both set the same metadata domain", domain
            case Txn(app_id=app_id) if app_id in self.app_ids:
                return "it wrote for the same application", app_id
            case Add():
                return self._against_add(action)
            case Remove():
                return self._against_remove(action)
        return None

    def _against_add(self, add: Add) -> tuple[str, str] | None:
        if file_key(add) in self.added | self.removed:
            return "both wrote the same file", add.path
        if self.isolation is Isolation.SNAPSHOT:
            return None
        if self.read.whole_table or (self.read.matches is not None and self.read.matches(add)):
            return "it added a file that this commit should have read", add.path
        return None

    def _against_remove(self, remove: Remove) -> tuple[str, str] | None:
        key = file_key(remove)
        if key in self.removed:
            return "both removed the same file", remove.path
        if key in self.read.files or self.read.whole_table:
            return "it removed a file that this commit read", remove.path
        return None


def says_blind(actions: Sequence[Action]) -> bool:
    """Tell whether a commit only adds files and says itself that it read nothing."""
    info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo())
    return info.is_blind_append is True and is_blind_append(actions, ReadSet(0))


def known_reads(actions: Sequence[Action], version: int) -> ReadSet:
    """Return the most that a commit on `version` can have read.

    A commit that changes no rows rewrites those of the files that it removes: nothing else that it
    read can show in the table.
    """
    if says_blind(actions):
        return ReadSet(version)
    removed = frozenset(file_key(action) for action in actions if isinstance(action, Remove))
    if removed and isolation_of(actions) is Isolation.SNAPSHOT:
        return ReadSet(version, files=removed)
    return ReadSet(version, whole_table=True)


def find_own_obstacle(actions: Sequence[Action]) -> str | None:
    """Return what keeps a commit from having any other number, or None."""
    for action in actions:
        if not isinstance(action, _MOVABLE):
            return f"it holds an action {action.kind}, which only its own history gives a meaning"
        if isinstance(action, Add) and action.base_row_id is not None:
            return f"its file {action.path} brings row ids, which SQL gives out"
        if isinstance(action, Add) and action.default_row_commit_version is not None:
            return f"its file {action.path} names version {action.default_row_commit_version}"
    return None


def find_obstacle(actions: Sequence[Action], version: int, winners: Sequence[Winner]) -> str | None:
    """Return why a commit with this number in the log cannot stand above the winners, or None."""
    read = known_reads(actions, version - 1)
    conflict = find_conflict(actions, read, winners)
    if conflict is not None:
        winner = conflict.winner
        guess = "; what the commit read is not recorded" if read.whole_table else ""
        against = f"against version {winner.version} of SQL ({winner.operation})"
        return f"{against}: {conflict.reason} ({conflict.subject}){guess}"
    return _find_removed_by_winner(actions, winners)


def _find_removed_by_winner(actions: Sequence[Action], winners: Sequence[Winner]) -> str | None:
    """A file that SQL removed must not come back because a foreign add of it moves up."""
    added = {file_key(action) for action in actions if isinstance(action, Add)}
    for winner in winners:
        for action in winner.actions:
            if isinstance(action, Remove) and file_key(action) in added:
                against = f"against version {winner.version} of SQL ({winner.operation})"
                return f"{against}: it removed {action.path}, which the commit adds"
    return None
