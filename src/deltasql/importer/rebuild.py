"""Rebuild a table in SQL from its log alone: for a database that is lost.

Every commit that the log holds comes back with its bytes, its token and its time; where the log's
beginning is gone, its state comes from a checkpoint. What SQL had acknowledged and the log never
got is lost, and nobody can tell how much that was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltasql.catalog.adopt import FoundCommit
from deltasql.catalog.commits import NewTable
from deltasql.catalog.importing import Importing
from deltasql.errors import LogGapError, MalformedActionError, ObjectNotFoundError
from deltasql.log.checkpoint_actions import read_checkpoint
from deltasql.log.segment import usable_checkpoints
from deltasql.protocol.files import LOG_FOLDER, LogFile, LogFileKind
from deltasql.storage.port import ObjectStore

# Whole versions of about so many bytes go in one transaction.
_WINDOW_BYTES = 4 * 1024 * 1024
_WINDOW_VERSIONS = 200


@dataclass(frozen=True, slots=True)
class Past:
    """What a log still holds: commits without a gap, and the checkpoint that they stand on."""

    commits: tuple[LogFile, ...]
    checkpoint: tuple[LogFile, ...]
    unreachable: int = 0

    @property
    def first(self) -> int:
        """The oldest version that can be read."""
        return self.commits[0].version

    @property
    def last(self) -> int:
        """The newest version."""
        return self.commits[-1].version


def read_past(store: ObjectStore) -> Past:
    """List a log and return the longest past that leads to its newest commit.

    Raises:
        ObjectNotFoundError: there is no Delta log.
        LogGapError: its newest commits stand on nothing.
    """
    files = []
    for info in store.list_from(LOG_FOLDER):
        name = info.key.removeprefix(LOG_FOLDER)
        parsed = LogFile.parse(name) if "/" not in name else None
        if parsed is not None and (info.size or parsed.kind is LogFileKind.COMMIT):
            files.append(parsed)
    commits = sorted(file for file in files if file.kind is LogFileKind.COMMIT)
    if not commits:
        raise ObjectNotFoundError(f"There is no Delta log at {store.uri}.")
    run = _unbroken_end(commits)
    if run[0].version == 0:
        return Past(run, ())
    usable = {  # of one version, the last is the one that readers prefer
        parts[0].version: parts
        for parts in usable_checkpoints(files)
        if run[0].version <= parts[0].version <= run[-1].version
    }
    if usable:
        first = min(usable)
        kept = tuple(file for file in run if file.version >= first)
        return Past(kept, usable[first], len(commits) - len(kept))
    raise LogGapError(
        f"The log at {store.uri} begins at version {run[0].version} and has no checkpoint from "
        "there on.",
        missing=run[0].version - 1,
    )


def rebuild(importing: Importing, store: ObjectStore, new: NewTable, *, now: int) -> Past:
    """Write a log's past into the book; a run that was cut short goes on where it stopped.

    Raises:
        TableExistsError: the name, the place or the id belongs to another table.
        MalformedActionError, UnsupportedFeatureError: a commit cannot be understood; what came
            before it is in, and the table takes no commits.
    """
    past = read_past(store)
    row = importing.begin(new, past.first)
    done = row.current_version
    while done < past.last:
        left = [file for file in past.commits if file.version > done]
        if past.checkpoint and left[0].version == past.first:
            state = read_checkpoint(store, past.checkpoint)
            importing.head(row.table_id, _found(store, left[0]), state, now=now)
            left = left[1:]
        for window in _windows(store, left):
            importing.versions(row.table_id, window, now=now)
        # somebody who had not noticed yet may have put one more
        done, past = past.last, read_past(store)
    importing.finish(row.table_id)
    return past


def _unbroken_end(commits: Sequence[LogFile]) -> tuple[LogFile, ...]:
    start = len(commits) - 1
    while start > 0 and commits[start - 1].version == commits[start].version - 1:
        start -= 1
    return tuple(commits[start:])


def _windows(store: ObjectStore, files: Sequence[LogFile]) -> Iterator[list[FoundCommit]]:
    window: list[FoundCommit] = []
    size = 0
    for file in files:
        window.append(_found(store, file))
        size += len(window[-1].payload)
        if size >= _WINDOW_BYTES or len(window) >= _WINDOW_VERSIONS:
            yield window
            window, size = [], 0
    if window:
        yield window


def _found(store: ObjectStore, file: LogFile) -> FoundCommit:
    payload = store.get(file.key)
    if not payload.strip():
        raise MalformedActionError(
            f"The commit {file.key} at {store.uri} is empty.", version=file.version
        )
    return FoundCommit.read(file.version, payload)
