"""Pure: the commits of a staged log as one commit, in the spelling of the staged log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    Metadata,
    Remove,
)
from deltasql.protocol.identity import FileKey
from deltasql.protocol.net_actions import NetActions
from deltasql.protocol.properties import read_bool

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


def fold(commits: Iterable[StagedCommit], live: Container[FileKey]) -> list[Action]:
    """Return the net actions of the commits, in order; `live` are the files before them.

    A file that was added and removed again is not among them; of metadata, protocol,
    applications and domains the last word counts.
    """
    net = NetActions(lambda _: live)
    for commit in commits:
        net.commit([action for action in commit.actions if not isinstance(action, CommitInfo)])
    return net.actions


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
