"""A token that comes again: is it the same write, or another one that would silently be dropped?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from deltasql.errors import InvalidCommitError
from deltasql.protocol.actions import Action, Add, Remove

# Delta's name of the rows that a write adds.
_ROWS = "numOutputRows"
# Operations that callers do not name themselves: a name of theirs may change from try to try.
_OPERATIONS = frozenset(
    {
        "WRITE",
        "DELETE",
        "OPTIMIZE",
        "RESTORE",
        "ADD COLUMNS",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
    }
)


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What a write says of itself.

    `rows` and `files` (adds and removes) are None where they are not known. Rows that are written
    a second time lie in other files, so `files` are known only where the caller named them.
    """

    operation: str
    mode: str | None = None
    rows: int | None = None
    files: tuple[int, int] | None = None

    def __str__(self) -> str:
        mode = "" if self.mode is None else f" ({self.mode})"
        rows = "" if self.rows is None else f" of {self.rows} rows"
        files = "" if self.files is None else f", {self.files[0]} adds and {self.files[1]} removes"
        return f"{self.operation}{mode}{rows or files}"

    def differs(self, other: WriteSummary) -> bool:
        """Tell whether two writes are surely not the same."""
        names = {self.operation, other.operation}
        if names <= _OPERATIONS and (len(names) > 1 or self.mode != other.mode):
            return True
        known = ((self.rows, other.rows), (self.files, other.files))
        return any(None not in pair and pair[0] != pair[1] for pair in known)


def summarize(
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, Any],
    files: tuple[int, int],
) -> WriteSummary:
    """Summarize a commit by what its history tells."""
    rows = str(metrics.get(_ROWS, ""))
    return WriteSummary(
        operation,
        parameters.get("mode"),
        int(rows) if rows.isdecimal() else None,
        None if metrics else files,
    )


def stored_summary(columns: Sequence[Any]) -> WriteSummary:
    """Summarize a commit that SQL has, by the last columns of `version_by_commit_id`."""
    operation, parameters, metrics, adds, removes = columns
    decode = msgspec.json.decode
    return summarize(operation, decode(parameters), decode(metrics), (adds, removes))


def count_files(actions: Iterable[Action]) -> tuple[int, int]:
    """Return how many files a commit adds and removes."""
    kinds = [type(action) for action in actions]
    return kinds.count(Add), kinds.count(Remove)


def require_same_write(table: str, version: int, made: WriteSummary, meant: WriteSummary) -> None:
    """Refuse a write whose token belongs to another one.

    Raises:
        InvalidCommitError: says what the token was used for.
    """
    if made.differs(meant):
        raise InvalidCommitError(
            f"The commit_id was used before for another write: version {version} of {table} is "
            f"{made}; this is {meant}, and it was not made.",
            hint=f"If it is the same write sent again, it is done: version {version} holds it. "
            "Otherwise choose a new commit_id.",
            table=table,
            version=version,
        )


def other_transaction_error(versions: Mapping[str, int]) -> InvalidCommitError:
    """Return the error for a token that belongs to a transaction on other tables."""
    named = ", ".join(f"{name}@{version}" for name, version in versions.items())
    return InvalidCommitError(
        f"The commit_id was used before for another transaction ({named}); nothing was committed.",
        hint="Choose a new commit_id for each transaction.",
    )
