"""Write a segment of whole versions, or a part of a checkpoint's state, in one transaction.

The windows of a segment come from the newest to the oldest, so that the end of every file is known
when it comes: each row is written once, to the table where it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import ENDING_SCHEMA, FILE_SCHEMA, VersionWindow
from deltasql.catalog.commit_rows import metadata_columns, protocol_columns
from deltasql.catalog.database import BulkWork, Database
from deltasql.catalog.ids import IdBlocks
from deltasql.catalog.payloads import CHUNK_BYTES
from deltasql.catalog.rows import TableState
from deltasql.catalog.segment_fold import SegmentFold, ascending
from deltasql.catalog.settings_rows import with_settings
from deltasql.catalog.stats_bulk import bulk_index_rows
from deltasql.catalog.stats_fill import Pairs, close_columns, load_index, open_pairs
from deltasql.crash import crash_point
from deltasql.errors import CatalogCorruptError, TableStateError
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.codec import dump_values

_LOADING = (TableState.IMPORTING, TableState.READ_ONLY)


@dataclass(frozen=True, slots=True)
class ImportLock:
    """A table that is being loaded, as the transaction found it."""

    table_id: str
    table_key: int
    current_version: int
    first_version: int
    last_ict: int
    state: TableState
    properties: dict[str, Any]
    full_name: str

    @property
    def next_version(self) -> int:
        """The version that must come now."""
        return max(self.current_version + 1, self.first_version)


@dataclass(frozen=True, slots=True)
class Segment:
    """Whole versions from `first` to `last`, for one transaction; the newest window first."""

    first: int
    last: int
    windows: Iterable[VersionWindow]


@dataclass(slots=True)
class BulkLoad:
    """Loads segments of versions into one table."""

    database: Database
    table_id: str
    file_ids: IdBlocks

    def segment(self, segment: Segment, notes: dict[str, Any]) -> None:
        """Write whole versions, whose windows come from the newest to the oldest.

        `notes` go to the table's `import_metadata`.

        Raises:
            TableStateError: the segment is not the next one of the table.
            UniqueViolationError: an add replaces a file from before the segment; a segment of one
                window never fails so.
            CommitUnknownError: the connection was lost during COMMIT.
        """
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, segment.first)
            load = _SegmentLoad(self, work, lock)
            for window in segment.windows:
                load.take(window, is_oldest=window.first == segment.first)
                crash_point("inside-import-segment")
            load.end(segment, notes)
            crash_point("before-import-segment")
        crash_point("after-import-segment")

    def state_part(self, files: pa.Table, notes: dict[str, Any], *, version: int) -> None:
        """Write a part of a checkpoint's state; nobody sees it before its version is there."""
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, version)
            load = _SegmentLoad(self, work, lock)
            is_live = pc.is_valid(files["added_version"])
            rows = files.drop_columns("is_first")
            load.insert_files(rows.filter(is_live), rows.filter(pc.invert(is_live)))
            load.insert_partitions()
            work.run(
                "set_properties",
                table_id=self.table_id,
                properties=dump_values(_noted(lock.properties, notes)),
            )
            crash_point("before-import-part")
        crash_point("after-import-part")

    def numbers(self, work: BulkWork, count: int) -> range:
        """Return numbers for files; SQLite, which has one writer, takes them in the transaction."""
        if self.database.dialect.has_row_locks:
            return self.file_ids.take(count)
        end = work.rows("take_ids", name="file_id", amount=count)[0][0]
        return range(end - count, end)


@dataclass(slots=True)
class _SegmentLoad:
    """The transaction of one segment."""

    load: BulkLoad
    work: BulkWork
    lock: ImportLock
    _fold: SegmentFold = field(default_factory=SegmentFold)
    _windows: list[VersionWindow] = field(default_factory=list)
    _partitions: set[str] = field(default_factory=set)
    _pairs: Pairs | None = None

    def take(self, window: VersionWindow, *, is_oldest: bool) -> None:
        """Write the files of the next older window; the oldest one ends files from before, too."""
        placed = self._fold.take(window)
        if is_oldest:
            self._end_older()
        self.insert_files(placed.live.drop_columns(list(_NOT_LIVE)), placed.removed)
        self._windows.append(replace(window, files=_NO_FILES, endings=_NO_ENDINGS))

    def end(self, segment: Segment, notes: dict[str, Any]) -> None:
        """Write the versions and all that is not files, and move the table on."""
        windows = ascending(self._windows)
        versions = pa.concat_tables([window.versions for window in windows])
        self.insert_partitions()
        times = commit_times(versions, self.lock.last_ict)
        self._insert_versions(_with_times(versions, times, self.lock.last_ict))
        self.work.run(
            "mirror_range",
            table_id=self.lock.table_id,
            first=segment.first,
            last=segment.last,
            digest=None,
            now=int(notes["imported_at_ms"]),
        )
        changes = [change for window in windows for change in window.changes]
        for window in windows:
            self._insert_others(window)
        if self._pairs:
            close_columns(self.work, [column for column, _ in self._pairs], changes)
        self._advance(segment, max(times), changes, notes)
        self._require_whole(segment)

    def insert_files(self, live: pa.Table, removed: pa.Table) -> None:
        """Write files straight to their tables, and to the index where there is one."""
        ids = self.load.numbers(self.work, live.num_rows + removed.num_rows)
        table_key = pa.scalar(self.lock.table_key, pa.int32())
        for name, rows, numbers in (
            ("dl_files", live, ids[: live.num_rows]),
            ("dl_removed_files", removed, ids[live.num_rows :]),
        ):
            if rows.num_rows:
                numbered = _numbered(rows, numbers)
                keyed = numbered.append_column("table_key", pa.repeat(table_key, rows.num_rows))
                self.work.insert(name, keyed)
                self._note_added(numbered)

    def insert_partitions(self) -> None:
        """Write the combinations of partition values that the files have."""
        if self._partitions:
            texts = pa.table({"partition_values": sorted(self._partitions)})
            self.work.stage("create_import_partitions", texts)
            self.work.run("insert_import_partitions", table_id=self.lock.table_id)

    def _note_added(self, files: pa.Table) -> None:
        added = files.filter(pc.is_valid(files["added_version"]))
        if not added.num_rows:
            return
        self._partitions.update(pc.unique(added["partition_values"]).to_pylist())
        if self._pairs is None:
            self._pairs = open_pairs(self.work, self.lock.table_id, self.lock.current_version)
        if self._pairs:
            load_index(self.work, bulk_index_rows(added["stats"], added["file_id"], self._pairs))

    def _end_older(self) -> None:
        """End files from before the segment; removes of files that never were are tombstones."""
        older = self._fold.older()
        tombstones = older.tombstones
        if self.lock.current_version >= self.lock.first_version:
            self.work.stage("create_import_endings", older.removes.select(_ENDING_COLUMNS))
            self.work.stage("create_import_adds", older.adds)
            self.work.stage("create_import_hits", _NO_HITS)
            for name in ("find_import_removed", "find_import_replaced"):
                self.work.run(name, table_id=self.lock.table_id)
            for name in ("end_import_hits", "delete_import_hits"):
                self.work.run(name)
            hits = pa.array([number for (number,) in self.work.rows("import_hits")], pa.int64())
            is_hit = pc.is_in(older.removes["number"], value_set=hits)
            left = older.removes.filter(pc.invert(is_hit))
        else:
            left = older.removes
        unknown = pa.concat_tables([tombstones, left]).drop_columns("number")
        self.insert_files(unknown.slice(0, 0), _with_no_add(unknown))

    def _insert_versions(self, rows: pa.Table) -> None:
        big = pc.greater(pc.binary_length(rows["payload"]), CHUNK_BYTES)
        if pc.any(big).as_py():
            rows = self._in_chunks(rows, big)
        place = rows.column_names.index("commit_id")
        rows = rows.set_column(place, "commit_id", pa.array(self._tokens(rows), pa.string()))
        origin = pa.repeat(pa.scalar("import"), rows.num_rows)
        rows = rows.append_column("origin", origin)
        self.work.insert("dl_table_versions", rows, table_id=self.lock.table_id)

    def _tokens(self, rows: pa.Table) -> list[str]:
        """Return the token of each version; one that an earlier version has already is replaced."""
        taken: set[str] = set()
        if self.lock.current_version >= self.lock.first_version:
            self.work.stage("create_import_tokens", rows.select(["commit_id"]))
            found = self.work.rows("import_tokens_taken", table_id=self.lock.table_id)
            taken = {token for (token,) in found}
        tokens = []
        columns = (rows[name].to_pylist() for name in ("version", "commit_id", "digest"))
        for version, told, digest in zip(*columns, strict=True):
            token = f"import-{version}-{digest[:16]}" if told in taken else told
            taken.add(token)
            tokens.append(token)
        return tokens

    def _in_chunks(self, rows: pa.Table, big: pa.ChunkedArray) -> pa.Table:
        for row in rows.select(["version", "payload"]).filter(big).to_pylist():
            for number, start in enumerate(range(0, len(row["payload"]), CHUNK_BYTES)):
                self.work.run(
                    "insert_payload_chunk",
                    table_id=self.lock.table_id,
                    version=row["version"],
                    chunk=number,
                    payload=row["payload"][start : start + CHUNK_BYTES],
                )
        place = rows.column_names.index("payload")
        kept = pc.if_else(big, pa.scalar(None, pa.binary()), rows["payload"])
        return rows.set_column(place, "payload", kept)

    def _insert_others(self, window: VersionWindow) -> None:
        for name, rows in (
            ("dl_txn_actions", window.txns),
            ("dl_domain_metadata", window.domains),
        ):
            if rows.num_rows:
                self.work.insert(name, rows, table_id=self.lock.table_id)
        for version, change in window.changes:
            place = {"table_id": self.lock.table_id, "version": version}
            if isinstance(change, Metadata):
                self.work.run("insert_metadata", **place, **metadata_columns(change))
            else:
                self.work.run("insert_protocol", **place, **protocol_columns(change))

    def _advance(
        self,
        segment: Segment,
        newest: int,
        changes: Sequence[tuple[int, Metadata | Protocol]],
        notes: dict[str, Any],
    ) -> None:
        properties = _noted(self.lock.properties, {**notes, "last_imported_version": segment.last})
        for _, change in changes:
            if isinstance(change, Metadata):
                properties = with_settings(properties, change)
        self.work.run(
            "advance_import",
            table_id=self.lock.table_id,
            version=segment.last,
            ict=max(newest, self.lock.last_ict),
            metadata_version=_last(changes, Metadata),
            protocol_version=_last(changes, Protocol),
            properties=dump_values(properties),
        )

    def _require_whole(self, segment: Segment) -> None:
        """Count what has arrived; a bulk load that lost a version must not be committed."""
        place = {"table_id": self.lock.table_id, "first": segment.first, "last": segment.last}
        written = self.work.rows("count_versions", **place)[0][0]
        wanted = segment.last - segment.first + 1
        if written != wanted:
            raise CatalogCorruptError(
                f"{written} of {wanted} versions from {segment.first} on arrived; none is kept."
            )


_NO_FILES, _NO_ENDINGS = FILE_SCHEMA.empty_table(), ENDING_SCHEMA.empty_table()
_ENDING_COLUMNS = [
    "number",
    "file_key",
    "removed_version",
    "deletion_timestamp",
    "remove_data_change",
    "extended_file_metadata",
]
_NO_HITS = pa.table({"number": pa.array([], pa.int64())})
_NOT_LIVE = (*FILE_SCHEMA.names[FILE_SCHEMA.get_field_index("removed_version") :],)


def lock_import(work: BulkWork, table_id: str, version: int) -> ImportLock:
    """Return the table as it is, which must wait for this very version.

    Raises:
        TableStateError: another import is at work, or the table is no longer one.
    """
    table_key, current, first, ict, state, properties, namespace, name = work.rows(
        "import_lock", table_id=table_id
    )[0]
    lock = ImportLock(
        table_id,
        table_key,
        current,
        first,
        ict,
        TableState(state),
        msgspec.json.decode(properties),
        f"{namespace}.{name}" if namespace else name,
    )
    if lock.state not in _LOADING or lock.next_version != version:
        raise TableStateError(
            f"Table {lock.full_name} is {lock.state} at {lock.current_version}; version {version} "
            "cannot be imported.",
            hint="Another import of it may be at work; see `deltasql show`.",
            table=lock.full_name,
            version=version,
        )
    return lock


def commit_times(versions: pa.Table, before: int) -> list[int]:
    """Return when each version was committed, as Delta's readers tell it.

    A commit's own timestamp counts as it is; else the time of its file, always later than the
    version before.
    """
    times = []
    for told, modified in zip(
        versions["in_commit_timestamp"].to_pylist(),
        versions["modified_at"].to_pylist(),
        strict=True,
    ):
        before = told if told is not None else max(modified, before + 1)
        times.append(before)
    return times


def _with_times(versions: pa.Table, times: Sequence[int], newest: int) -> pa.Table:
    """Put in when each version was committed, and whether it is not later than all before."""
    before = accumulate(times[:-1], max, initial=newest)
    backdated = [time <= latest for time, latest in zip(times, before, strict=True)]
    rows = versions.set_column(1, "committed_at", pa.array(times, pa.int64()))
    return rows.append_column("is_backdated", pa.array(backdated, pa.bool_()))


def _numbered(rows: pa.Table, file_ids: range) -> pa.Table:
    numbers = pa.array(range(file_ids.start, file_ids.start + rows.num_rows), pa.int64())
    return rows.append_column("file_id", numbers)


def _with_no_add(removes: pa.Table) -> pa.Table:
    """Return removes as rows of files that no version added."""
    nothing = pa.nulls(removes.num_rows, pa.int64())
    return removes.append_column("added_version", nothing)


def _noted(properties: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    return properties | {"import_metadata": properties.get("import_metadata", {}) | notes}


def _last(changes: Sequence[tuple[int, Metadata | Protocol]], kind: type) -> int | None:
    return max((v for v, change in changes if isinstance(change, kind)), default=None)
