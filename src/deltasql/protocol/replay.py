"""Fold actions, version by version, into the state of a table.

Newest wins: one protocol, one metaData, one txn per app, one configuration per domain, and per
file key (path, deletion vector) either a live add or a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from deltasql.protocol.actions import (
    Action,
    Add,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltasql.protocol.identity import FileKey, file_key


@dataclass(slots=True)
class TableState:
    """A table after some version; `apply` moves it one version on."""

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    files: dict[FileKey, Add] = field(default_factory=dict)
    tombstones: dict[FileKey, Remove] = field(default_factory=dict)
    in_commit_timestamp: int | None = None

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Apply one commit. Within it removes count before adds, whatever their order.

        A commit may not hold an add and a remove of one key; where one does, the add stays, as
        in a replay that reads the file's last word.
        """
        adds: list[Add] = []
        for action in actions:
            match action:
                case Add():
                    adds.append(action)
                case Remove():
                    self._end(action)
                case Protocol():
                    self.protocol = action
                case Metadata():
                    self.metadata = action
                case Txn():
                    self.txns[action.app_id] = action
                case DomainMetadata():
                    self._set_domain(action)
                case CommitInfo():
                    self.in_commit_timestamp = action.in_commit_timestamp
        for add in adds:
            key = file_key(add)
            self.tombstones.pop(key, None)
            self.files[key] = add
        self.version = version

    def _end(self, remove: Remove) -> None:
        key = file_key(remove)
        self.files.pop(key, None)
        self.tombstones[key] = remove

    def _set_domain(self, domain: DomainMetadata) -> None:
        if domain.removed:
            self.domains.pop(domain.domain, None)
        else:
            self.domains[domain.domain] = domain
