"""Write a window of whole versions, or a part of a checkpoint's state, in one transaction.

Optimistic: few logs add a file again without removing it, and the unique index tells when one
does. Only then is every added file looked up before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.catalog.bulk_rows import VersionWindow
from deltasql.catalog.commit_rows import metadata_columns, protocol_columns
from deltasql.catalog.database import BulkWork, Database, UniqueViolationError
from deltasql.catalog.payloads import CHUNK_BYTES
from deltasql.catalog.rows import TableState
from deltasql.catalog.settings_rows import with_settings
from deltasql.catalog.stats_fill import index_window
from deltasql.crash import crash_point
from deltasql.errors import CatalogCorruptError, TableStateError
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.codec import dump_values

_LOADING = (TableState.IMPORTING, TableState.READ_ONLY)


@dataclass(frozen=True, slots=True)
class ImportLock:
    """A table that is being loaded, as the transaction found it."""

    table_id: str
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


@dataclass(slots=True)
class BulkLoad:
    """Loads windows into one table."""

    database: Database
    table_id: str

    def window(self, window: VersionWindow, file_ids: range, notes: dict[str, Any]) -> None:
        """Write whole versions; `notes` go to the table's `import_metadata`.

        `file_ids` has a number for each row of files and of endings.

        Raises:
            TableStateError: the window is not the next one of the table.
            CommitUnknownError: the connection was lost during COMMIT.
        """
        try:
            self._window(window, file_ids, notes, supersede=False)
        except UniqueViolationError:
            self._window(window, file_ids, notes, supersede=True)
        crash_point("after-import-window")

    def state_part(
        self, files: pa.Table, file_ids: range, notes: dict[str, Any], *, version: int
    ) -> None:
        """Write a part of a checkpoint's state; nobody sees it before its version is there."""
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, version)
            work.stage("create_import_files", _numbered(files, file_ids))
            for name in ("insert_import_live", "insert_import_ended", "insert_import_partitions"):
                work.run(name, table_id=self.table_id)
            work.run(
                "set_properties",
                table_id=self.table_id,
                properties=dump_values(_noted(lock.properties, notes)),
            )
            crash_point("before-import-part")
        crash_point("after-import-part")

    def _window(
        self, window: VersionWindow, file_ids: range, notes: dict[str, Any], *, supersede: bool
    ) -> None:
        split = window.files.num_rows
        with self.database.bulk() as work:
            lock = lock_import(work, self.table_id, window.first)
            files = _numbered(window.files, file_ids[:split])
            work.stage("create_import_files", files)
            work.stage("create_import_endings", _with_ids(window.endings, file_ids[split:]))
            index_window(work, self.table_id, files, lock.current_version, window.changes)
            self._end_older(work, supersede=supersede)
            for name in ("insert_import_live", "insert_import_ended", "insert_import_partitions"):
                work.run(name, table_id=self.table_id)
            times = commit_times(window.versions, lock.last_ict)
            versions = _with_times(window.versions, times, lock.last_ict)
            self._versions(work, versions, int(notes["imported_at_ms"]))
            self._others(work, window)
            self._advance(work, lock, window, max(times), notes)
            self._require_whole(work, window)
            crash_point("before-import-window")

    def _end_older(self, work: BulkWork, *, supersede: bool) -> None:
        work.stage("create_import_hits", _EMPTY)
        work.run("find_import_hits", table_id=self.table_id)
        if supersede:
            work.run("find_import_superseded", table_id=self.table_id)
        work.run("find_import_passing", table_id=self.table_id)
        work.run("end_import_hits")
        work.run("delete_import_hits")
        work.run("insert_import_unknown", table_id=self.table_id)

    def _versions(self, work: BulkWork, rows: pa.Table, now: int) -> None:
        big = pc.greater(pc.binary_length(rows["payload"]), CHUNK_BYTES)
        if pc.any(big).as_py():
            rows = self._in_chunks(work, rows, big)
        work.stage("create_import_versions", rows)
        work.run("insert_import_versions", table_id=self.table_id)
        work.run("insert_import_mirrored", table_id=self.table_id, now=now)

    def _in_chunks(self, work: BulkWork, rows: pa.Table, big: pa.ChunkedArray) -> pa.Table:
        for row in rows.select(["version", "payload"]).filter(big).to_pylist():
            for number, start in enumerate(range(0, len(row["payload"]), CHUNK_BYTES)):
                work.run(
                    "insert_payload_chunk",
                    table_id=self.table_id,
                    version=row["version"],
                    chunk=number,
                    payload=row["payload"][start : start + CHUNK_BYTES],
                )
        place = rows.column_names.index("payload")
        kept = pc.if_else(big, pa.scalar(None, pa.binary()), rows["payload"])
        return rows.set_column(place, "payload", kept)

    def _others(self, work: BulkWork, window: VersionWindow) -> None:
        if window.txns.num_rows:
            work.stage("create_import_txns", window.txns)
            work.run("insert_import_txns", table_id=self.table_id)
        if window.domains.num_rows:
            work.stage("create_import_domains", window.domains)
            work.run("insert_import_domains", table_id=self.table_id)
        for version, change in window.changes:
            place = {"table_id": self.table_id, "version": version}
            if isinstance(change, Metadata):
                work.run("insert_metadata", **place, **metadata_columns(change))
            else:
                work.run("insert_protocol", **place, **protocol_columns(change))

    def _advance(
        self,
        work: BulkWork,
        lock: ImportLock,
        window: VersionWindow,
        newest: int,
        notes: dict[str, Any],
    ) -> None:
        properties = _noted(lock.properties, {**notes, "last_imported_version": window.last})
        for _, change in window.changes:
            if isinstance(change, Metadata):
                properties = with_settings(properties, change)
        work.run(
            "advance_import",
            table_id=self.table_id,
            version=window.last,
            ict=max(newest, lock.last_ict),
            metadata_version=_last(window, Metadata),
            protocol_version=_last(window, Protocol),
            properties=dump_values(properties),
        )

    def _require_whole(self, work: BulkWork, window: VersionWindow) -> None:
        """Count what has arrived; a bulk load that lost a row must not be committed."""
        written, hits = work.rows("count_import", table_id=self.table_id)[0]
        wanted = window.last - window.first + 1
        if written != wanted or hits > window.endings.num_rows + window.files.num_rows:
            raise CatalogCorruptError(
                f"{written} of {wanted} versions from {window.first} on arrived; none is kept."
            )


_EMPTY = pa.table({"number": pa.array([], pa.int64())})


def lock_import(work: BulkWork, table_id: str, version: int) -> ImportLock:
    """Return the table as it is, which must wait for this very version.

    Raises:
        TableStateError: another import is at work, or the table is no longer one.
    """
    current, first, ict, state, properties, namespace, name = work.rows(
        "import_lock", table_id=table_id
    )[0]
    lock = ImportLock(
        table_id,
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


def _numbered(files: pa.Table, file_ids: range) -> pa.Table:
    """Number the rows in the order of their paths, in which the index takes them best."""
    order = pc.sort_indices(files, sort_keys=[("path", "ascending"), ("dv_id", "ascending")])
    return _with_ids(files.take(order), file_ids, at=0)


def _with_ids(rows: pa.Table, file_ids: range, at: int = 1) -> pa.Table:
    numbers = pa.array(range(file_ids.start, file_ids.start + rows.num_rows), pa.int64())
    return rows.add_column(at, "file_id", numbers)


def _noted(properties: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    return properties | {"import_metadata": properties.get("import_metadata", {}) | notes}


def _last(window: VersionWindow, kind: type) -> int | None:
    return max((v for v, change in window.changes if isinstance(change, kind)), default=None)
