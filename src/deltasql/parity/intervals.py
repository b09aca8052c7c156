"""From when to when each file was live: a table's whole history of files as numbers.

Two sides that agree on their intervals agree on the files of every version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltasql.parity.file_hashes import Totals, hash_contents, hash_keys, numbers, totals_of

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
_Kind = TypeVar("_Kind", bound=np.generic)

OPEN = np.iinfo(np.int64).max
_ODD = np.uint64(0xC2B2AE3D27D4EB4F)
_TURNS = (np.uint64(31), np.uint64(17))


@dataclass(frozen=True, slots=True)
class Intervals:
    """Files by the hash of their key: live from `begins` until before `ends`.

    `contents` is a hash of what an add says beside its size, 0 where nobody asks for it.
    """

    keys: Hashes
    begins: Numbers
    ends: Numbers
    sizes: Numbers
    contents: Hashes

    def within(self, since: int, head: int) -> Intervals:
        """Return what a span of versions sees of them; one that is empty is none."""
        begins = np.maximum(self.begins, since)
        ends = np.where(self.ends > head, OPEN, self.ends)
        kept = (begins < ends) & (begins <= head)
        return Intervals(
            self.keys[kept], begins[kept], ends[kept], self.sizes[kept], self.contents[kept]
        )

    def live(self, version: int) -> Totals:
        """Return the files of one version, by keys and sizes."""
        kept = (self.begins <= version) & (version < self.ends)
        return totals_of(self.keys[kept], self.sizes[kept])

    def live_contents(self) -> Totals:
        """Return the files that never ended, by keys, sizes and contents."""
        kept = self.ends == OPEN
        return totals_of(_mixed(self.keys[kept], self.contents[kept]), self.sizes[kept])

    def whole(self) -> Totals:
        """Return all intervals in three numbers."""
        return totals_of(self.words(), self.sizes)

    def borders_that_differ(self, other: Intervals) -> list[int]:
        """Return the versions at which an interval begins or ends that only one side has."""
        found: set[int] = set()
        for one, two in ((self, other), (other, self)):
            alone = ~np.isin(one.words(), two.words())
            borders = np.concatenate([one.begins[alone], one.ends[alone]])
            found.update(int(version) for version in borders[borders != OPEN])
        return sorted(found)

    def words(self) -> Hashes:
        """Return each interval as one number."""
        begins, ends = self.begins.astype(np.uint64), self.ends.astype(np.uint64)
        return _mixed(_mixed(_mixed(self.keys, begins), ends), self.sizes.astype(np.uint64))


def read_intervals(batches: Iterable[pa.RecordBatch]) -> Intervals:
    """Return intervals as SQL has them; see the query `file_intervals`."""
    parts = [_of_batch(batch) for batch in batches]
    return Intervals(
        _joined([part.keys for part in parts], np.uint64),
        _joined([part.begins for part in parts], np.int64),
        _joined([part.ends for part in parts], np.int64),
        _joined([part.sizes for part in parts], np.int64),
        _joined([part.contents for part in parts], np.uint64),
    )


def _of_batch(batch: pa.RecordBatch) -> Intervals:
    ends = batch.column("removed_version").fill_null(OPEN)
    return Intervals(
        hash_keys(batch),
        numbers(batch.column("added_version")),
        numbers(ends),
        numbers(batch.column("size")),
        hash_contents(batch),
    )


def _joined(parts: Sequence[npt.NDArray[_Kind]], kind: type[_Kind]) -> npt.NDArray[_Kind]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _mixed(left: Hashes, right: Hashes) -> Hashes:
    """Return hashes that depend on both, and on which is which."""
    with np.errstate(over="ignore"):
        mixed = (left ^ (left >> _TURNS[0])) * _ODD + right
        mixed = (mixed ^ (mixed >> _TURNS[1])) * _ODD
    return mixed ^ (mixed >> _TURNS[0])
