"""Whole versions in a row as Arrow tables, and the fold that finds which files they leave.

When the add of a file comes, all that newer versions say of the file is known. So its row goes to
its place at once: among the live files, or among the removed ones.

What a bulk load takes: the rows of whole versions as Arrow. The adds and removes of a window
stand in the order of the log. Which of them ends which is for `segment_fold`, which sees the
windows of a segment from the newest to the oldest.

Pure: for a log that is read backwards, the next action on every file. It is a remove, or an add
without a remove before it. Files are known by their 16-byte keys, here as two numbers each,
sorted by the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltasql.protocol.actions import Metadata, Protocol

HASH = pa.binary(16)
_TEXT, _LONG, _BOOL, _BYTES = pa.string(), pa.int64(), pa.bool_(), pa.binary()

# An add in the columns of dl_files.
ADD_SCHEMA = pa.schema(
    [
        ("path", _TEXT),
        ("file_key", HASH),
        ("path_hash", HASH),
        ("dv_id", _TEXT),
        ("size", _LONG),
        ("modification_time", _LONG),
        ("partition_values", _TEXT),
        ("stats", _TEXT),
        ("num_records", _LONG),
        ("tags", _TEXT),
        ("deletion_vector", _TEXT),
        ("base_row_id", _LONG),
        ("default_row_commit_version", _LONG),
        ("clustering_provider", _TEXT),
        ("data_change", _BOOL),
        ("unknown_fields", _TEXT),
        ("added_version", _LONG),
    ]
)

# A remove in the columns of dl_removed_files: all that a tombstone needs if there was no such file.
REMOVE_SCHEMA = pa.schema(
    [
        ("path", _TEXT),
        ("file_key", HASH),
        ("path_hash", HASH),
        ("dv_id", _TEXT),
        ("size", _LONG),
        ("partition_values", _TEXT),
        ("deletion_vector", _TEXT),
        ("base_row_id", _LONG),
        ("default_row_commit_version", _LONG),
        ("removed_version", _LONG),
        ("deletion_timestamp", _LONG),
        ("remove_data_change", _BOOL),
        ("extended_file_metadata", _BOOL),
    ]
)

# `modified_at`: the time of the commit file itself, which counts if the commit has none of its own.
VERSION_SCHEMA = pa.schema(
    [
        ("version", _LONG),
        ("modified_at", _LONG),
        ("committer", _TEXT),
        ("operation", _TEXT),
        ("operation_params", _TEXT),
        ("operation_metrics", _TEXT),
        ("in_commit_timestamp", _LONG),
        ("read_version", _LONG),
        ("is_blind_append", _BOOL),
        ("commit_id", _TEXT),
        ("transaction_id", _TEXT),
        ("adds", _LONG),
        ("removes", _LONG),
        ("actions", _LONG),
        ("bytes_added", _LONG),
        ("bytes_removed", _LONG),
        ("user_metadata", _TEXT),
        ("payload", _BYTES),
        ("payload_bytes", _LONG),
        ("digest", _TEXT),
    ]
)
TXN_SCHEMA = pa.schema(
    [("version", _LONG), ("app_id", _TEXT), ("txn_version", _LONG), ("last_updated", _LONG)]
)
DOMAIN_SCHEMA = pa.schema(
    [("version", _LONG), ("domain", _TEXT), ("configuration", _TEXT), ("removed", _BOOL)]
)

# The file actions once more, as hashes, for the comparison with SQL: the file's key, the version,
# and of an add its size and a hash of its other fields; see `imports.validate.file_history`.
EVENT_SCHEMA = pa.schema(
    [("key", pa.uint64()), ("version", _LONG), ("size", _LONG), ("content", pa.uint64())]
)

Numbers: TypeAlias = npt.NDArray[np.int64]
Halves: TypeAlias = npt.NDArray[np.uint64]

# In place of the number of a remove: the action is an add.
AN_ADD = -1
NONE = -1

_OF_REMOVE = ["deletion_timestamp", "remove_data_change", "extended_file_metadata"]
_OLDER_ADDS = pa.schema([("file_key", HASH), ("version", pa.int64())])


@dataclass(frozen=True, slots=True)
class VersionWindow:
    """Whole versions in a row, ready to be written."""

    first: int
    last: int
    versions: pa.Table
    adds: pa.Table
    removes: pa.Table
    txns: pa.Table
    domains: pa.Table
    events: pa.Table
    changes: tuple[tuple[int, Metadata | Protocol], ...]

    def __len__(self) -> int:
        """The number of versions."""
        return self.last - self.first + 1

    def without_rows(self) -> VersionWindow:
        """Return the window without its files and payloads, which take most of its memory."""
        return replace(
            self.without_files(),
            versions=self.versions.drop_columns("payload"),
        )

    def without_files(self) -> VersionWindow:
        """Return the window without its files."""
        return replace(self, adds=ADD_SCHEMA.empty_table(), removes=REMOVE_SCHEMA.empty_table())


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


@dataclass(frozen=True, slots=True)
class PlacedFiles:
    """The files of a window in the columns of dl_files and dl_removed_files.

    `place` is an add's place in the window, whatever became of the file: ids follow it, so that a
    version's files have the order in which its commit names them.
    """

    live: pa.Table
    removed: pa.Table


@dataclass(frozen=True, slots=True)
class OlderEnds:
    """What a segment says of files from before it.

    `removes`, which are numbered, end files from before if there are any, and are tombstones if
    not; `tombstones` end none in any case. `adds` are the keys and versions of adds that replace a
    file from before.
    """

    removes: pa.Table
    tombstones: pa.Table
    adds: pa.Table


@dataclass(slots=True)
class SegmentFold:
    """Takes the windows of one segment, the newest first."""

    _later: LaterActions = field(default_factory=LaterActions)
    _removes: list[pa.Table] = field(default_factory=list)
    _used: list[Numbers] = field(default_factory=list)
    _count: int = 0

    def take(self, window: VersionWindow) -> PlacedFiles:
        """Return the files of the next older window, each where it belongs."""
        adds, removes = window.adds.combine_chunks(), window.removes.combine_chunks()
        actions = _WindowActions.of(adds, removes)
        adds = adds.append_column("place", pa.array(np.arange(adds.num_rows)))
        versions, ends = self._ends(actions, removes.num_rows)
        is_removed = versions != NONE
        said = [one.select(_OF_REMOVE) for one in (removes, *self._removes)]
        ended = ends[is_removed]
        of_remove = pa.concat_tables(said).take(pa.array(ended, mask=ended == AN_ADD))
        removed = adds.filter(pa.array(is_removed))
        removed = removed.append_column("removed_version", pa.array(versions[is_removed]))
        how = np.where(ended == AN_ADD, "replaced", "remove")
        removed = removed.append_column("removal", pa.array(how, pa.string()))
        for name in _OF_REMOVE:
            removed = removed.append_column(name, of_remove[name])
        tombstones = as_tombstones(removes.filter(pa.array(actions.follows_remove)))
        places = adds.num_rows + np.arange(tombstones.num_rows)
        tombstones = tombstones.append_column("place", pa.array(places))
        self._note(actions, removes)
        return PlacedFiles(
            adds.filter(pa.array(~is_removed)),
            pa.concat_tables([removed, tombstones], promote_options="default"),
        )

    def older(self) -> OlderEnds:
        """Return what is left to say of files from before the segment, once all windows came."""
        removes = pa.concat_tables([REMOVE_SCHEMA.empty_table(), *self._removes])
        removes = removes.append_column("number", pa.array(np.arange(self._count)))
        is_unused = np.ones(self._count, dtype=bool)
        for numbers in self._used:
            is_unused[numbers] = False
        later, is_remove = self._later, self._later.numbers != AN_ADD
        is_first = np.zeros(self._count, dtype=bool)
        is_first[later.numbers[is_remove]] = True
        keys, versions = later.keys.at(~is_remove).column(), later.versions[~is_remove]
        return OlderEnds(
            removes.filter(pa.array(is_unused & is_first)),
            removes.filter(pa.array(is_unused & ~is_first)).drop_columns("number"),
            pa.table([keys, pa.array(versions)], schema=_OLDER_ADDS),
        )

    def _ends(self, actions: _WindowActions, removes: int) -> tuple[Numbers, Numbers]:
        """Return for each add the version that ends it, or NONE, and by which remove.

        Removes are numbered from the window's own on, then those of newer windows; AN_ADD stands
        for an add that replaces the file.
        """
        after = actions.after[removes:]
        versions, ends = np.full(len(after), NONE), np.full(len(after), AN_ADD)
        is_inside = after != NONE
        by = after[is_inside]
        versions[is_inside] = actions.versions[by]
        ends[is_inside] = np.where(by < removes, by, AN_ADD)
        open_adds = np.flatnonzero(~is_inside)
        places = self._later.find(actions.keys.at(open_adds + removes))
        is_found = places != NONE
        at = open_adds[is_found]
        numbers = self._later.numbers[places[is_found]]
        versions[at] = self._later.versions[places[is_found]]
        ends[at] = np.where(numbers == AN_ADD, AN_ADD, numbers + removes)
        self._used.append(numbers[numbers != AN_ADD])
        return versions, ends

    def _note(self, actions: _WindowActions, removes: pa.Table) -> None:
        """Remember the first action on every file, for the windows before."""
        is_first = actions.before == NONE
        open_adds = is_first[: removes.num_rows]
        if open_adds.any():
            self._removes.append(removes.filter(pa.array(open_adds)))
        numbers = np.full(len(actions.keys), AN_ADD)
        count = int(open_adds.sum())
        numbers[: removes.num_rows][open_adds] = np.arange(self._count, self._count + count)
        self._count += count
        self._later.put(actions.keys.at(is_first), actions.versions[is_first], numbers[is_first])


@dataclass(frozen=True, slots=True)
class _WindowActions:
    """The file actions of a window, removes first, each with its neighbours on the same file."""

    keys: Keys
    versions: Numbers
    before: Numbers
    after: Numbers
    follows_remove: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, adds: pa.Table, removes: pa.Table) -> _WindowActions:
        keys = keys_of(removes["file_key"]).plus(keys_of(adds["file_key"]))
        versions = np.concatenate(
            [removes["removed_version"].to_numpy(), adds["added_version"].to_numpy()]
        )
        # within one commit removes count before adds, as everywhere in Delta
        is_add = np.arange(len(keys)) >= removes.num_rows
        order = np.lexsort((versions * 2 + is_add, keys.last, keys.first))
        ordered = keys.at(order)
        same = ordered.first[1:] == ordered.first[:-1]
        same &= ordered.last[1:] == ordered.last[:-1]
        before, after = np.full(len(keys), NONE), np.full(len(keys), NONE)
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        of_removes = before[: removes.num_rows]
        follows = (of_removes != NONE) & (of_removes < removes.num_rows)
        return cls(keys, versions, before, after, follows)


def as_tombstones(removes: pa.Table) -> pa.Table:
    """Return removes as rows of files that no version added."""
    return removes.append_column("removal", pa.repeat(pa.scalar("remove"), removes.num_rows))


def ascending(windows: Sequence[VersionWindow]) -> list[VersionWindow]:
    """Return windows in the order of their versions."""
    return sorted(windows, key=lambda window: window.first)
