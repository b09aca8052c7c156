"""The commit files of a log as columns: a million of them take some megabytes, not hundreds."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from deltasql.protocol.log_names import commit_key


@dataclass(frozen=True, slots=True, order=True)
class CommitFile:
    """One commit file, as a listing told of it."""

    version: int
    size: int
    modified_ms: int

    @property
    def key(self) -> str:
        """The object's key below the table's root."""
        return commit_key(self.version)


@dataclass(frozen=True, slots=True, order=True)
class VersionRange:
    """Versions without a hole, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True, repr=False)
class CommitFiles(Sequence[CommitFile]):
    """Commit files in the order of their versions; a slice is as cheap as its length."""

    versions: array[int]
    sizes: array[int]
    times: array[int]

    @classmethod
    def of(cls, files: Iterator[CommitFile] | Sequence[CommitFile] = ()) -> CommitFiles:
        """Return the files sorted; of two with one version, the later given counts."""
        columns = cls(array("q"), array("q"), array("q"))
        for file in files:
            columns.versions.append(file.version)
            columns.sizes.append(file.size)
            columns.times.append(file.modified_ms)
        return columns._sorted()

    @overload
    def __getitem__(self, at: int) -> CommitFile: ...
    @overload
    def __getitem__(self, at: slice) -> CommitFiles: ...
    def __getitem__(self, at: int | slice) -> CommitFile | CommitFiles:
        if isinstance(at, slice):
            return CommitFiles(self.versions[at], self.sizes[at], self.times[at])
        return CommitFile(self.versions[at], self.sizes[at], self.times[at])

    def __len__(self) -> int:
        return len(self.versions)

    def __repr__(self) -> str:
        told = ", ".join(str(span) for span in self.ranges()[:5])
        return f"CommitFiles({told})"

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(self.sizes)

    def find(self, version: int) -> CommitFile | None:
        """Return the commit of a version, or None."""
        at = bisect_left(self.versions, version)
        return self[at] if at < len(self) and self.versions[at] == version else None

    def between(self, first: int, last: int) -> CommitFiles:
        """Return the commits of these versions, both ends included."""
        return self[bisect_left(self.versions, first) : bisect_right(self.versions, last)]

    def filled(self) -> CommitFiles:
        """Return the commits that hold anything."""
        return self if all(self.sizes) else CommitFiles.of([file for file in self if file.size])

    def ranges(self) -> tuple[VersionRange, ...]:
        """Return the versions that are there as runs without a hole."""
        found: list[VersionRange] = []
        start = 0
        for at in range(1, len(self) + 1):
            if at == len(self) or self.versions[at] != self.versions[at - 1] + 1:
                found.append(VersionRange(self.versions[start], self.versions[at - 1]))
                start = at
        return tuple(found)

    def _sorted(self) -> CommitFiles:
        ascending = all(
            self.versions[at] > self.versions[at - 1] for at in range(1, len(self.versions))
        )
        if ascending:
            return self
        by_version = {file.version: file for file in self}
        return CommitFiles.of([by_version[version] for version in sorted(by_version)])
