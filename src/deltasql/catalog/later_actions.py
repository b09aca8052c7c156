"""Pure: for a log that is read backwards, the next action on every file.

It is a remove, or an add without a remove before it. Files are known by their 16-byte keys,
here as two numbers each, sorted by the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = npt.NDArray[np.int64]
Halves: TypeAlias = npt.NDArray[np.uint64]

# In place of the number of a remove: the action is an add.
AN_ADD = -1
NONE = -1


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of files; their first and their last eight bytes."""

    first: Halves
    last: Halves

    def __len__(self) -> int:
        return len(self.first)

    def at(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Keys:
        """Return some of the keys."""
        return Keys(self.first[places], self.last[places])

    def plus(self, others: Keys) -> Keys:
        """Return these keys and then others."""
        return Keys(
            np.concatenate([self.first, others.first]), np.concatenate([self.last, others.last])
        )

    def column(self) -> pa.Array:
        """Return the keys as SQL takes them."""
        both = np.column_stack([self.first, self.last]).astype(">u8")
        return pa.Array.from_buffers(pa.binary(16), len(self), [None, pa.py_buffer(both.tobytes())])


def keys_of(column: pa.ChunkedArray) -> Keys:
    """Return a column of 16 bytes, none of them null, as keys."""
    if not len(column):
        return Keys(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    array = pa.concat_arrays(column.chunks)
    halves = np.frombuffer(array.buffers()[1], dtype=">u8").reshape(-1, 2)
    halves = halves[array.offset : array.offset + len(array)]
    return Keys(halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64))


@dataclass(slots=True)
class LaterActions:
    """The first action on every file in the versions that were read so far.

    `versions` are those of the actions, `numbers` say which remove each is, or AN_ADD.
    """

    keys: Keys = field(default_factory=lambda: Keys(np.zeros(0, np.uint64), np.zeros(0, np.uint64)))
    versions: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))

    def find(self, keys: Keys) -> npt.NDArray[np.intp]:
        """Return the place of the next action on each file; -1 where there is none."""
        found = np.full(len(keys), NONE, dtype=np.intp)
        # in order: looking up sorted keys takes a fraction of the time
        asked = np.argsort(keys.first)
        places = np.searchsorted(self.keys.first, keys.first[asked])
        # almost always one turn: another follows where two keys begin with the same eight bytes
        while len(asked):
            inside = places < len(self.keys)
            asked, places = asked[inside], places[inside]
            alike = self.keys.first[places] == keys.first[asked]
            asked, places = asked[alike], places[alike]
            same = self.keys.last[places] == keys.last[asked]
            found[asked[same]] = places[same]
            asked, places = asked[~same], places[~same] + 1
        return found

    def put(self, keys: Keys, versions: Numbers, numbers: Numbers) -> None:
        """Take the first actions of versions before all that were read so far."""
        places = self.find(keys)
        known = places != NONE
        self.versions[places[known]] = versions[known]
        self.numbers[places[known]] = numbers[known]
        new = ~known
        first = np.concatenate([self.keys.first, keys.first[new]])
        order = np.argsort(first, kind="stable")
        self.keys = Keys(first[order], np.concatenate([self.keys.last, keys.last[new]])[order])
        self.versions = np.concatenate([self.versions, versions[new]])[order]
        self.numbers = np.concatenate([self.numbers, numbers[new]])[order]
