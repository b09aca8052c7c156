"""Which rows a commit brings and takes, told by its files: what streams and the change feed read.

A commit with files of changes is told by these alone. Else an added file is rows inserted, a
removed one is rows deleted, and one path with two deletion vectors is their difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deltasql.protocol.actions import Action, Add, Cdc, DeletionVector, Metadata, Protocol, Remove

Change: TypeAlias = Literal["insert", "delete"]


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
