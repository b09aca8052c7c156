"""Differences between SQL and the source log, by file and by version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from deltasql.imports.validate.file_history import (
    from_digests,
    hash_contents,
    mix_contents,
    text_digests,
)
from deltasql.protocol.actions import Add, path_key
from deltasql.protocol.codec import dump_values

FILE_COLUMNS = ("path", "dv_id", "size", "stats", "partition_values", "modification_time")

# More than these nobody reads.
MOST_LISTED = 100


class FileKey(NamedTuple):
    """What a file is known by."""

    path: str
    dv_id: str


class FileWords(NamedTuple):
    """A file's size, and a hash of what else its add says."""

    size: int
    content: int


FileMap = Mapping[FileKey, FileWords]


def files_of(batches: Iterable[pa.RecordBatch]) -> dict[FileKey, FileWords]:
    """Return files as SQL and checkpoints have them; see FILE_COLUMNS."""
    found: dict[FileKey, FileWords] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("path", "dv_id", "size"))
        contents = hash_contents(batch).tolist()
        for path, dv_id, size, content in zip(*columns, contents, strict=True):
            found[FileKey(path_key(path), dv_id or "")] = FileWords(size, content)
    return found


def files_of_adds(adds: Sequence[Add]) -> dict[FileKey, FileWords]:
    """Return files as a commit has them."""
    contents = mix_contents(
        from_digests(text_digests([add.stats for add in adds])),
        from_digests(text_digests([dump_values(add.partition_values) for add in adds])),
        np.array([add.modification_time for add in adds], dtype=np.int64),
    ).tolist()
    return {
        FileKey(path_key(add.path), add.dv_id): FileWords(add.size, content)
        for add, content in zip(adds, contents, strict=True)
    }


def sizes_only(files: FileMap) -> FileMap:
    """Return files as if their adds said nothing else."""
    return {key: FileWords(words.size, 0) for key, words in files.items()}


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
    return "other_size" if expected[key].size != found[key].size else "metadata_differs"


def _sizes_of(key: FileKey, expected: FileMap, found: FileMap) -> tuple[int | None, int | None]:
    told, ours = expected.get(key), found.get(key)
    return told.size if told else None, ours.size if ours else None


def _sizes(file: FileDifference) -> str:
    if file.kind == "metadata_differs":
        return "(other statistics, partition values or time)"
    if file.expected is None or file.found is None:
        return ""
    return f"({file.expected} bytes in the log, {file.found} in SQL)"
