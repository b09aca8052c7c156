"""Several commits to one table, folded into the actions of one commit.

Replaying the folded commit gives the state that replaying the commits one by one gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

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

# Which of these files were live before the first commit.
LiveAmong: TypeAlias = Callable[[Collection[FileKey]], Container[FileKey]]
_FileAction = TypeVar("_FileAction", Add, Remove)


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
