"""May a foreign commit be committed again above versions of SQL that it never saw? Pure.

Delta's rules for concurrent commits, with what is known of a foreign commit: its actions. What it
read is not recorded, so it counts as a reader of the whole table, unless the commit shows that it
read less.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.protocol.actions import Action, Add, Cdc, CommitInfo, Remove, Txn
from deltasql.protocol.conflicts import (
    Isolation,
    ReadSet,
    Winner,
    find_conflict,
    is_blind_append,
    isolation_of,
)
from deltasql.protocol.identity import file_key

# In commitInfo: the number that a foreign commit had in the log before it was committed again.
RECOMMITTED_KEY = "deltasqlRecommittedFrom"
_MOVABLE = CommitInfo | Add | Remove | Cdc | Txn


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
