"""May a commit that was made stand above commits that it never saw? Pure.

Delta's rules, with what is left to know of a commit: its actions. What it read is not recorded, so
it counts as the whole table, unless the commit itself shows that it read less.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from deltasql.protocol.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
)
from deltasql.protocol.conflicts import Isolation, ReadSet, Winner, find_conflict, isolation_of
from deltasql.protocol.identity import file_key

# Tells in commitInfo which number a commit had when it was acknowledged.
REBASED_KEY = "deltasqlRebasedFrom"
_ENABLED_AT = "delta.inCommitTimestampEnablementVersion"


def known_reads(actions: Sequence[Action], version: int, *, is_blind: bool) -> ReadSet:
    """Return the most that a commit can have read.

    A blind append read nothing. A commit that changes no rows rewrites those of the files that it
    removes: nothing else it read can show in the table.
    """
    if is_blind:
        return ReadSet(version)
    changes_rules = any(isinstance(a, Metadata | Protocol | DomainMetadata) for a in actions)
    if not changes_rules and isolation_of(actions) is Isolation.SNAPSHOT:
        return ReadSet(version, files=frozenset(_removed(actions)))
    return ReadSet(version, whole_table=True)


def find_obstacle(
    actions: Sequence[Action], version: int, winners: Sequence[Winner], *, is_blind: bool
) -> str | None:
    """Return why a commit, once `version`, cannot stand above the winners, or None if it can."""
    own = _names_its_number(actions, version)
    if own is not None:
        return own
    read = known_reads(actions, version - 1, is_blind=is_blind)
    conflict = find_conflict(actions, read, winners)
    if conflict is not None:
        winner = conflict.winner
        told = f"against version {winner.version} ({winner.operation}): {conflict.reason}"
        guess = "; what ours read is not recorded" if read.whole_table else ""
        return f"{told} ({conflict.subject}){guess}"
    return _resurrected(actions, winners)


def _resurrected(actions: Sequence[Action], winners: Sequence[Winner]) -> str | None:
    """A file that a winner removed must not come back because our add of it moves up."""
    added = {file_key(action) for action in actions if isinstance(action, Add)}
    for winner in winners:
        for action in winner.actions:
            if isinstance(action, Remove) and file_key(action) in added:
                told = f"against version {winner.version} ({winner.operation})"
                return f"{told}: it removed {action.path}, which this commit adds"
    return None


def _removed(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [file_key(action) for action in actions if isinstance(action, Remove)]


def _names_its_number(actions: Sequence[Action], version: int) -> str | None:
    for action in actions:
        match action:
            case Metadata(configuration=configuration):
                if configuration.get(_ENABLED_AT) == str(version):
                    return f"its metadata names version {version} ({_ENABLED_AT})"
            case Add(default_row_commit_version=named) if named is not None and named >= version:
                return f"its file {action.path} names version {named}"
    return None


def rebased_info(
    info: CommitInfo, version: int, shift: int, *, first: int, timestamp: int, has_own_time: bool
) -> CommitInfo:
    """Return the commitInfo of a commit that moves up by `shift`, with its new time.

    `first` is the lowest number that moves. The number that was acknowledged first stays in it,
    however often the commit moves.
    """
    extra = {REBASED_KEY: version, **(info.extra or {})}
    read = info.read_version
    if isinstance(read, int) and read >= first:
        read += shift
    return msgspec.structs.replace(
        info,
        timestamp=timestamp,
        in_commit_timestamp=timestamp if has_own_time else None,
        read_version=read,
        extra=extra,
    )
