"""Pure: the commits of a staged log as one commit, in the spelling of the staged log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltasql.protocol.identity import FileKey, file_key
from deltasql.protocol.properties import read_bool

FileAction = TypeVar("FileAction", Add, Remove)
CHANGE_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """One commit of a staged log: what a single statement did."""

    actions: tuple[Action, ...]
    version: int = 0

    @property
    def info(self) -> CommitInfo:
        """What Delta Spark tells of the statement."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def paths(self) -> Iterator[str]:
        """The files that it names."""
        return (a.path for a in self.actions if isinstance(a, Add | Remove | Cdc))

    @property
    def tracks_rows(self) -> bool:
        """Tell whether files were added whose rows have versions."""
        adds = (action for action in self.actions if isinstance(action, Add))
        return any(add.default_row_commit_version is not None for add in adds)

    @property
    def has_files(self) -> bool:
        """Tell whether rows were written, moved or deleted."""
        return any(isinstance(action, Add | Remove | Cdc) for action in self.actions)


@dataclass(slots=True)
class _Net:
    live: Container[FileKey]
    adds: dict[FileKey, Add] = field(default_factory=dict)
    removes: dict[FileKey, Remove] = field(default_factory=dict)
    others: dict[str, Action] = field(default_factory=dict)

    def take(self, commit: StagedCommit) -> None:
        changes = self._moves_new_rows(commit)
        for action in commit.actions:
            match action:
                case Add():
                    self._add(_changing(action) if changes else action)
                case Remove():
                    self._remove(_changing(action) if changes else action)
                case CommitInfo():
                    continue
                case _:
                    self.others[_subject(action)] = action

    def _moves_new_rows(self, commit: StagedCommit) -> bool:
        """A compaction of files that the transaction added itself brings their rows along.

        Who follows the table sees only the folded commit: there the rows are new.
        """
        gone = [self.adds.get(file_key(a)) for a in commit.actions if isinstance(a, Remove)]
        return any(add is not None and add.data_change for add in gone)

    def _add(self, add: Add) -> None:
        self.removes.pop(file_key(add), None)
        self.adds[file_key(add)] = add

    def _remove(self, remove: Remove) -> None:
        key = file_key(remove)
        if self.adds.pop(key, None) is None or key in self.live:
            self.removes[key] = remove


def fold(commits: Iterable[StagedCommit], live: Container[FileKey]) -> list[Action]:
    """Return the net actions of the commits, in order; `live` are the files before them.

    A file that was added and removed again is not among them; of metadata, protocol,
    applications and domains the last word counts.
    """
    net = _Net(live)
    for commit in commits:
        net.take(commit)
    return [*net.others.values(), *net.adds.values(), *net.removes.values()]


def refuse_lost_changes(table: str, metadata: Metadata, commits: Sequence[StagedCommit]) -> None:
    """Refuse several writes to a table with a change feed: folded, some changes would be lost.

    Raises:
        InvalidCommitError: names the table.
    """
    words = [metadata, *(a for one in commits for a in one.actions if isinstance(a, Metadata))]
    has_feed = any(read_bool(word.configuration, CHANGE_FEED) for word in words)
    if has_feed and sum(commit.has_files for commit in commits) > 1:
        raise second_write(table)


def second_write(table: str) -> InvalidCommitError:
    """Return the error of a second write to a table with a change feed."""
    return InvalidCommitError(
        f"Table {table} has a change data feed ({CHANGE_FEED}): a transaction writes to it by one "
        "statement only.",
        hint="Put the changes into one MERGE, or commit them one by one.",
        table=table,
    )


def _subject(action: Action) -> str:
    match action:
        case Txn(app_id=name) | DomainMetadata(domain=name) | Cdc(path=name):
            return f"{action.kind} {name}"
        case Metadata() | Protocol():
            return action.kind
    raise InvalidCommitError(f"A statement left a `{action.kind}`, which nobody can fold.")


def _changing(action: FileAction) -> FileAction:
    return msgspec.structs.replace(action, data_change=True)
