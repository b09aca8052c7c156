"""What two sides tell differently, as values that can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deltasql.parity.file_maps import FileKey, FileMap

# More than these nobody reads.
MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: what the log says and what SQL has."""

    name: str
    version: int
    expected: Any
    found: Any

    @property
    def is_equal(self) -> bool:
        """Whether both sides agree."""
        return bool(self.expected == self.found)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file on which the two sides do not agree."""

    kind: str
    version: int
    path: str
    dv_id: str
    expected: int | None
    found: int | None


@dataclass(frozen=True, slots=True)
class Validation:
    """The outcome of a comparison; `files` names at most so many, `more` counts the others.

    `unreadable` says, a sentence each, what could not be compared with because it is corrupt.
    """

    version: int
    checks: tuple[Check, ...]
    files: tuple[FileDifference, ...] = ()
    more: int = 0
    compared_with: tuple[str, ...] = field(default=())
    unreadable: tuple[str, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        """Whether everything that was compared is equal."""
        return all(check.is_equal for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The comparisons that were not equal."""
        return tuple(check for check in self.checks if not check.is_equal)

    def lines(self) -> Iterator[str]:
        """Yield the differences as sentences."""
        for check in self.failed:
            yield (
                f"{check.name} at version {check.version}: the log has {check.expected}, "
                f"SQL has {check.found}"
            )
        for file in self.files:
            yield f"{file.kind} at version {file.version}: {file.path} {_sizes(file)}".rstrip()
        if self.more:
            yield f"and {self.more} more files"


def compare_files(
    version: int, expected: FileMap, found: FileMap
) -> tuple[tuple[FileDifference, ...], int]:
    """Return the first differences between two sets of files, and how many more there are."""
    keys = sorted(expected.keys() ^ found.keys())
    keys += sorted(key for key in expected.keys() & found.keys() if expected[key] != found[key])
    listed = [
        FileDifference(_kind(key, expected, found), version, *key, *_sizes_of(key, expected, found))
        for key in keys[:MOST_LISTED]
    ]
    return tuple(listed), max(0, len(keys) - MOST_LISTED)


def _kind(key: FileKey, expected: FileMap, found: FileMap) -> str:
    if key not in found:
        return "missing_file"
    if key not in expected:
        return "extra_file"
    return "other_size" if expected[key].size != found[key].size else "other_words"


def _sizes_of(key: FileKey, expected: FileMap, found: FileMap) -> tuple[int | None, int | None]:
    told, ours = expected.get(key), found.get(key)
    return told.size if told else None, ours.size if ours else None


def _sizes(file: FileDifference) -> str:
    if file.kind == "other_words":
        return "(other statistics, partition values or time)"
    if file.expected is None or file.found is None:
        return ""
    return f"({file.expected} bytes in the log, {file.found} in SQL)"
