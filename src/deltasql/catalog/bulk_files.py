"""Write the files of a segment in bulk: straight to the table where each of them stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_lock import ImportLock
from deltasql.catalog.bulk_rows import ADD_SCHEMA
from deltasql.catalog.database import BulkWork
from deltasql.catalog.definitions import change_indexed_columns
from deltasql.catalog.segment_fold import OlderEnds, as_tombstones
from deltasql.catalog.stats_bulk import bulk_index_rows, in_order
from deltasql.catalog.stats_fill import Pairs, close_columns, load_index, open_pairs
from deltasql.catalog.stats_index import usable_columns
from deltasql.protocol.actions import Metadata, Protocol

_NO_ADDS = ADD_SCHEMA.empty_table()
_REMOVE_COLUMNS = [
    "number",
    "file_key",
    "removed_version",
    "deletion_timestamp",
    "remove_data_change",
    "extended_file_metadata",
]
_NO_HITS = pa.table({"number": pa.array([], pa.int64())})


@dataclass(slots=True)
class FileLoad:
    """Writes files in one transaction; `numbers` gives them their ids.

    `partitions` collects the combinations of partition values that the files have.
    """

    work: BulkWork
    lock: ImportLock
    numbers: Callable[[BulkWork, int], range]
    partitions: set[str] = field(default_factory=set)
    _pairs: Pairs | None = None

    def insert(self, live: pa.Table, removed: pa.Table) -> None:
        """Write files and tombstones, and index the files if the table has an index.

        Their ids follow the column `place` where they have one.
        """
        first = self.numbers(self.work, live.num_rows + removed.num_rows).start
        table_key = pa.scalar(self.lock.table_key, pa.int32())
        for name, rows, start in (
            ("dl_files", live, first),
            ("dl_removed_files", removed, first + live.num_rows),
        ):
            if rows.num_rows:
                numbered = _numbered(rows, first, start)
                keyed = numbered.append_column("table_key", pa.repeat(table_key, rows.num_rows))
                self.work.insert(name, keyed)
                self._note_added(numbered)

    def end_older(self, older: OlderEnds) -> None:
        """End files from before the segment; removes of files that never were are tombstones."""
        left = older.removes
        if self.lock.has_versions:
            self.work.stage("create_import_removes", left.select(_REMOVE_COLUMNS))
            self.work.stage("create_import_adds", older.adds)
            self.work.stage("create_import_hits", _NO_HITS)
            for name in ("find_import_removed", "find_import_replaced"):
                self.work.run(name, table_id=self.lock.table_id)
            for name in ("end_import_hits", "delete_import_hits"):
                self.work.run(name)
            hits = pa.array([number for (number,) in self.work.rows("import_hits")], pa.int64())
            left = left.filter(pc.invert(pc.is_in(left["number"], value_set=hits)))
        unknown = pa.concat_tables([older.tombstones, left.drop_columns("number")])
        self.insert(_NO_ADDS, as_tombstones(unknown))

    def insert_partitions(self) -> None:
        """Write the combinations that were collected."""
        if self.partitions:
            texts = pa.table({"partition_values": sorted(self.partitions)})
            self.work.stage("create_import_partitions", texts)
            self.work.run("insert_import_partitions", table_id=self.lock.table_id)

    def empty_partitions(self, version: int, *, has_writers: bool) -> None:
        """Mark the combinations that have no file any more: filters pass over them.

        Writers cache combinations; where the table has writers, the caches become invalid.
        """
        place = {"table_id": self.lock.table_id, "version": version}
        if self.work.rows("empty_loaded_partitions", **place) and has_writers:
            self.work.run("note_emptied_partitions", **place)

    def change_columns(self, changes: Sequence[tuple[int, Metadata | Protocol]]) -> None:
        """Index the columns that the metadata of one version asks for, from this version on."""
        for version, change in changes:
            if isinstance(change, Metadata):
                wanted = usable_columns(change)
                place = (self.work, self.lock.table_id, version)
                self._pairs = change_indexed_columns(*place, change, wanted)

    def close_columns(self, changes: Sequence[tuple[int, Metadata | Protocol]]) -> None:
        """End the index of columns that new metadata no longer asks for."""
        pairs = self._open_pairs() if changes else ()
        if pairs:
            close_columns(self.work, [column for column, _ in pairs], changes)

    def _note_added(self, files: pa.Table) -> None:
        if "added_version" not in files.column_names:
            return  # tombstones
        added = files.filter(pc.is_valid(files["added_version"]))
        if not added.num_rows:
            return
        self.partitions.update(pc.unique(added["partition_values"]).to_pylist())
        pairs = self._open_pairs()
        if pairs:
            rows = bulk_index_rows(added["stats"], added["file_id"], pairs)
            load_index(self.work, in_order([rows]))

    def _open_pairs(self) -> Pairs:
        if self._pairs is None:
            self._pairs = open_pairs(self.work, self.lock.table_id, self.lock.current_version)
        return self._pairs


def _numbered(rows: pa.Table, first: int, start: int) -> pa.Table:
    """Return rows with their ids: by their places from `first` on, or in order from `start` on."""
    if "place" not in rows.column_names:
        ids = pa.array(range(start, start + rows.num_rows), pa.int64())
        return rows.append_column("file_id", ids)
    ids = pc.add(rows["place"], pa.scalar(first, pa.int64()))
    return rows.drop_columns("place").append_column("file_id", ids)
