"""Which rows and which files commits bring and take: for streams, the change feed, and as one
commit.

A commit with files of changes is told by these alone. Else an added file is rows inserted, a
removed one is rows deleted, and one path with two deletion vectors is their difference.

Several commits to one table, folded into the actions of one commit. Replaying the folded commit
gives the state that replaying the commits one by one gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import msgspec

from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    Remove,
    Txn,
    file_key,
)

Change: TypeAlias = Literal["insert", "delete"]

# Which of these files were live before the first commit.
LiveAmong: TypeAlias = Callable[[Collection[FileKey]], Container[FileKey]]
_FileAction = TypeVar("_FileAction", Add, Remove)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """Rows of one file: those not deleted, and where `among` is told only those among it.

    `change` is None where the file itself says what happened to each row. `partition_values` is
    None where an old writer has not told them.
    """

    path: str
    size: int
    partition_values: dict[str, str | None] | None
    deletion_vector: DeletionVector | None = None
    among: DeletionVector | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class FollowedCommit:
    """A commit as those see it who follow a table.

    `files` are in the order of the log; those that change no row are left out.
    """

    version: int
    timestamp: int
    commit_id: str
    files: tuple[Add | Remove | Cdc, ...] = ()
    metadata: Metadata | None = None
    protocol: Protocol | None = None

    @property
    def adds(self) -> list[Add]:
        """The files with new rows."""
        return [one for one in self.files if isinstance(one, Add)]

    @property
    def removes(self) -> list[Remove]:
        """The files whose rows are gone."""
        return [one for one in self.files if isinstance(one, Remove)]

    @property
    def cdc(self) -> list[Cdc]:
        """The files of changes."""
        return [one for one in self.files if isinstance(one, Cdc)]

    def appended(self) -> list[ChangedFile]:
        """Return the files that were added."""
        return [_changed(add) for add in self.adds]

    def changed(self) -> list[ChangedFile]:
        """Return the changes of all rows, as Delta's change feed has them."""
        cdc = self.cdc
        if cdc:
            return [ChangedFile(one.path, one.size, one.partition_values) for one in cdc]
        removed = {one.path: one for one in self.removes}
        pairs = {add.path for add in self.adds if _differ(add, removed.get(add.path))}
        changes = [
            _changed(one)
            for one in self.files
            if one.path not in pairs and not isinstance(one, Cdc)
        ]
        for add in self.adds:
            if add.path in pairs:
                changes += _difference(add, removed[add.path].deletion_vector)
        return changes

    def inseparable(self) -> list[int] | None:
        """Return the sizes of files that a feed tells all at once; None where each is by itself.

        Both images of an updated row belong together, and so do two vectors of a file.
        """
        cdc = self.cdc
        if cdc:
            return [one.size for one in cdc]
        if any(not isinstance(one, Cdc) and one.deletion_vector for one in self.files):
            return [one.size or 0 for one in self.files]
        return None


def followed(
    version: int, timestamp: int, commit_id: str, actions: Iterable[Action]
) -> FollowedCommit:
    """Return what of a commit matters to those who follow the table."""
    files: list[Add | Remove | Cdc] = []
    metadata, protocol = None, None
    for action in actions:
        match action:
            case Add(data_change=True) | Remove(data_change=True) | Cdc():
                files.append(action)
            case Metadata():
                metadata = action
            case Protocol():
                protocol = action
    return FollowedCommit(version, timestamp, commit_id, tuple(files), metadata, protocol)


def _changed(one: Add | Remove) -> ChangedFile:
    change: Change = "insert" if isinstance(one, Add) else "delete"
    return ChangedFile(
        one.path, one.size or 0, one.partition_values, one.deletion_vector, change=change
    )


def _differ(add: Add, removed: Remove | None) -> bool:
    """Tell whether a file stayed and only its vector is another."""
    return removed is not None and bool(add.deletion_vector or removed.deletion_vector)


def _difference(add: Add, before: DeletionVector | None) -> list[ChangedFile]:
    after = add.deletion_vector
    place = (add.path, add.size, add.partition_values)
    found = []
    if after is not None and (before is None or after.id != before.id):
        found.append(ChangedFile(*place, before, after, "delete"))
    if before is not None and (after is None or after.id != before.id):
        found.append(ChangedFile(*place, after, before, "insert"))
    return found


@dataclass(slots=True)
class NetActions:
    """The net effect of commits.

    A file that was added and removed again leaves no trace, unless it was live before: then its
    remove stays. Of metadata, protocol, applications and domains the last one counts.
    """

    live_among: LiveAmong
    adds: dict[FileKey, Add] = field(default_factory=dict)
    removes: dict[FileKey, Remove] = field(default_factory=dict)
    others: dict[str, Action] = field(default_factory=dict)

    @property
    def actions(self) -> list[Action]:
        """The folded commit."""
        return [*self.others.values(), *self.adds.values(), *self.removes.values()]

    def commit(self, actions: Sequence[Action]) -> None:
        """Fold one more commit; its removes count before its adds, as in a replay.

        Raises:
            InvalidCommitError: it holds an action that no commit may hold.
        """
        removes = [action for action in actions if isinstance(action, Remove)]
        replaced = [key for key in map(file_key, removes) if key in self.adds]
        live = self.live_among(replaced) if replaced else ()
        changes_data = self._moves_new_rows(removes)
        for remove in removes:
            self._remove(_with_data_change(remove) if changes_data else remove, live)
        for action in actions:
            match action:
                case Remove():
                    continue
                case Add():
                    self._add(_with_data_change(action) if changes_data else action)
                case _:
                    self.others[_subject(action)] = action

    def _moves_new_rows(self, removes: Sequence[Remove]) -> bool:
        """Tell whether rows move that are new: a compaction of files of the same transaction.

        Readers of the change feed see only the folded commit, in which the rows are new.
        """
        gone = [self.adds.get(file_key(remove)) for remove in removes]
        return any(add is not None and add.data_change for add in gone)

    def _add(self, add: Add) -> None:
        key = file_key(add)
        self.removes.pop(key, None)
        self.adds[key] = add

    def _remove(self, remove: Remove, live: Container[FileKey]) -> None:
        key = file_key(remove)
        if self.adds.pop(key, None) is None or key in live:
            self.removes[key] = remove


def _subject(action: Action) -> str:
    match action:
        case Txn(app_id=name) | DomainMetadata(domain=name) | Cdc(path=name):
            return f"{action.kind} {name}"
        case Metadata() | Protocol() | CommitInfo():
            return action.kind
    raise InvalidCommitError(f"A `{action.kind}` cannot be committed.")


def _with_data_change(action: _FileAction) -> _FileAction:
    return msgspec.structs.replace(action, data_change=True)
