"""May a commit that read version R be placed above the commits that won since?

Delta's rules for Serializable; commits without data change are judged by SnapshotIsolation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltasql.protocol.identity import FileKey, file_key


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
