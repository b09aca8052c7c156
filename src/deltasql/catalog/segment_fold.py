"""Pure: the files of windows that come from the newest to the oldest, each with its end.

When a file comes, all that newer versions say of it is known. So it goes to its place at once:
among the live files, or among the removed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import ENDING_SCHEMA, FILE_SCHEMA, HASH, VersionWindow
from deltasql.catalog.later_words import AN_ADD, LaterWords, keys_of

_OF_REMOVE = ("deletion_timestamp", "remove_data_change", "extended_file_metadata")


@dataclass(frozen=True, slots=True)
class PlacedFiles:
    """The files of a window in the columns of their tables, without what belongs to neither."""

    live: pa.Table
    removed: pa.Table


@dataclass(frozen=True, slots=True)
class OlderEnds:
    """What a segment says of files from before it.

    `removes` end files from before, if there are any, and are tombstones if not; `tombstones` end
    none in any case. `adds` are the keys and versions of adds that replace a file from before.
    """

    removes: pa.Table
    tombstones: pa.Table
    adds: pa.Table


@dataclass(slots=True)
class SegmentFold:
    """Takes the windows of one segment, the newest first."""

    _words: LaterWords = field(default_factory=LaterWords)
    _endings: list[pa.Table] = field(default_factory=list)
    _used: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _count: int = 0

    def take(self, window: VersionWindow) -> PlacedFiles:
        """Return the files of the next older window, each where it belongs."""
        files = self._with_ends(window.files.combine_chunks())
        self._note(window)
        is_live = pc.is_null(files["removed_version"])
        live = files.filter(is_live)
        return PlacedFiles(live, files.filter(pc.invert(is_live)).drop_columns("is_first"))

    def older(self) -> OlderEnds:
        """Return what is left to say of files from before the segment, once all windows came."""
        endings = pa.concat_tables([ENDING_SCHEMA.empty_table(), *self._endings])
        unused = np.ones(self._count, dtype=bool)
        for numbers in self._used:
            unused[numbers] = False
        words, is_remove = self._words, self._words.numbers != AN_ADD
        is_first = np.zeros(self._count, dtype=bool)
        is_first[words.numbers[is_remove]] = True
        adds = pa.table(
            {
                "file_key": words.keys.at(~is_remove).column(),
                "version": words.versions[~is_remove],
            },
            schema=pa.schema([("file_key", HASH), ("version", pa.int64())]),
        )
        return OlderEnds(
            endings.filter(pa.array(unused & is_first)),
            endings.filter(pa.array(unused & ~is_first)),
            adds,
        )

    def _with_ends(self, files: pa.Table) -> pa.Table:
        """Give every file that did not end inside its window the end that a newer one told."""
        is_open = pc.is_null(files["removed_version"]).to_numpy()
        keys = keys_of(files["file_key"]).at(is_open)
        places = self._words.find(keys)
        found = places >= 0
        if not found.any():
            return files
        ends = np.zeros(len(files), dtype=bool)
        ends[np.flatnonzero(is_open)[found]] = True
        versions, numbers = self._words.versions[places[found]], self._words.numbers[places[found]]
        self._used.append(numbers[numbers != AN_ADD])
        values = self._told(numbers)
        values["removed_version"] = pa.array(versions)
        values["removal"] = pc.if_else(pa.array(numbers == AN_ADD), "replaced", "remove")
        mask = pa.array(ends)
        for name, told in values.items():
            at = files.schema.get_field_index(name)
            whole = pc.replace_with_mask(_one(files[name]), mask, told)
            files = files.set_column(at, FILE_SCHEMA.field(name), whole)
        return files

    def _told(self, numbers: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return what the removes of these numbers say; an add in place of one says nothing."""
        wanted = pa.array(numbers, mask=numbers == AN_ADD)
        if not self._endings:
            return {n: pa.nulls(len(numbers), FILE_SCHEMA.field(n).type) for n in _OF_REMOVE}
        small = pa.concat_tables([one.select(_OF_REMOVE) for one in self._endings])
        return {name: _one(small[name].take(wanted)) for name in _OF_REMOVE}

    def _note(self, window: VersionWindow) -> None:
        endings = window.endings
        numbers = np.arange(self._count, self._count + endings.num_rows, dtype=np.int64)
        self._count += endings.num_rows
        if endings.num_rows:
            self._endings.append(endings.set_column(0, "number", pa.array(numbers)))
            removed = _numbers(endings["removed_version"])
            self._words.put(keys_of(endings["file_key"]), removed, numbers)
        adds = window.files.filter(
            pc.and_(window.files["is_first"], pc.is_valid(window.files["added_version"]))
        )
        if adds.num_rows:
            said = np.full(adds.num_rows, AN_ADD, dtype=np.int64)
            self._words.put(keys_of(adds["file_key"]), _numbers(adds["added_version"]), said)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = column.to_numpy()
    return found


def ascending(windows: Sequence[VersionWindow]) -> list[VersionWindow]:
    """Return windows in the order of their versions."""
    return sorted(windows, key=lambda window: window.first)
