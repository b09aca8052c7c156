"""Pure: a commit that a log holds and SQL lacks, understood."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltasql.protocol.actions import Action, Add, CommitInfo
from deltasql.protocol.codec import decode_commit, digest


def log_token(version: int, made: str) -> str:
    """Return the token of a commit that names none, from its version and its digest."""
    return f"import-{version}-{made[:16]}"


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit that the log holds, understood."""

    version: int
    actions: tuple[Action, ...] = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def read(cls, version: int, payload: bytes) -> FoundCommit:
        """Return the commit in a file's bytes.

        Raises:
            MalformedActionError: it cannot be understood.
        """
        return cls(version, tuple(decode_commit(payload, version=version, lenient=True)), payload)

    @property
    def info(self) -> CommitInfo:
        """What the commit tells of itself."""
        return next((a for a in self.actions if isinstance(a, CommitInfo)), CommitInfo())

    @property
    def operation(self) -> str:
        """What the commit did, in its own word."""
        return str(self.info.operation) if self.info.operation else "UNKNOWN"

    @property
    def commit_id(self) -> str:
        """Its own token, so that whoever sends it again finds that it was made."""
        token = self.info.txn_id
        return str(token) if token else log_token(self.version, digest(self.payload))

    @property
    def num_adds(self) -> int:
        """How many files it adds."""
        return sum(isinstance(action, Add) for action in self.actions)
