"""Pure: which remove or add ends which file, for windows that come from the newest to the oldest.

When the add of a file comes, all that newer versions say of the file is known. So its row goes to
its place at once: among the live files, or among the removed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltasql.catalog.bulk_rows import HASH, REMOVE_SCHEMA, VersionWindow
from deltasql.catalog.later_actions import AN_ADD, NONE, Keys, LaterActions, Numbers, keys_of

_OF_REMOVE = ["deletion_timestamp", "remove_data_change", "extended_file_metadata"]
_OLDER_ADDS = pa.schema([("file_key", HASH), ("version", pa.int64())])


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
