"""Where a stream stands, as its checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltasql.errors import StreamError

_FORM = 1
_FIELDS = {
    "tableId": str,
    "epoch": int,
    "version": int,
    "index": int,
    "isInitialSnapshot": bool,
    "isChangeFeed": bool,
    "commitId": str,
}


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next file to read: the `index`th of a version, or of all that the version holds.

    `commit_id` is the token of the newest commit of which something was read. If another commit
    has its number by now, the numbers were given anew and the offset means nothing any more.
    """

    table_id: str
    epoch: int
    version: int
    index: int
    is_snapshot: bool
    is_feed: bool = False
    commit_id: str = ""

    @property
    def touched(self) -> int:
        """The newest version of which something was read."""
        return self.version if self.is_snapshot or self.index else self.version - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, always in the same order: Spark compares their text."""
        return {
            "form": _FORM,
            "tableId": self.table_id,
            "epoch": self.epoch,
            "version": self.version,
            "index": self.index,
            "isInitialSnapshot": self.is_snapshot,
            "isChangeFeed": self.is_feed,
            "commitId": self.commit_id,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> StreamOffset:
        """Read an offset of a checkpoint.

        Raises:
            StreamError: it is not one of ours.
        """
        values = [given.get(name) for name in _FIELDS]
        fits = all(type(one) is kind for one, kind in zip(values, _FIELDS.values(), strict=True))
        if given.get("form") != _FORM or not fits:
            raise StreamError('The offset in the checkpoint is not one of format("deltasql").')
        return cls(*values)  # type: ignore[arg-type] # checked above
