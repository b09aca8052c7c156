"""The versions of a segment as rows, under the lock of their import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.database.port import BulkTransaction
from deltasql.errors import CatalogCorruptError, TableStateError
from deltasql.imports.load.window import VersionWindow
from deltasql.metastore.commit.encode import CHUNK_BYTES, log_token
from deltasql.metastore.commit.insert import metadata_columns, protocol_columns
from deltasql.metastore.table_row import TableState, with_settings
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.codec import dump_values

Changes = Sequence[tuple[int, Metadata | Protocol]]


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """In which states a table takes versions of its log, and as whose they are kept."""

    states: tuple[TableState, ...]
    origin: str
    verb: str
    hint: str

    @property
    def is_import(self) -> bool:
        """Whether the table is still the log's: nobody commits to it in SQL."""
        return self.origin == "import"


IMPORTED = LoadTerms(
    (TableState.IMPORTING, TableState.READ_ONLY),
    "import",
    "imported",
    "Another import of it may be at work; see `deltasql show`.",
)
ADOPTED = LoadTerms(
    (TableState.ACTIVE, TableState.CONFLICT),
    "adopted",
    "adopted",
    "Somebody else may have committed or repaired meanwhile; look at it again.",
)
# the commit by which a cut-over has won the log
CLAIMED = LoadTerms(
    (TableState.READ_ONLY,), "commit", "taken over", "Another cut-over of it may be at work."
)


@dataclass(frozen=True, slots=True)
class ImportLock:
    """A table that is being loaded, as the transaction found it.

    `segment` is the marker of the segment whose windows are being loaded, or were when their
    importer ended. `checkpoint_parts` parts of the state in `checkpoint` are in.
    """

    table_id: str
    table_key: int
    current_version: int
    first_version: int
    last_ict: int
    state: TableState
    properties: dict[str, Any]
    full_name: str
    segment: str | None
    checkpoint: str | None
    checkpoint_parts: int

    @property
    def next_version(self) -> int:
        """The version that must come now."""
        return max(self.current_version + 1, self.first_version)

    @property
    def has_versions(self) -> bool:
        """Whether there are versions from before what is loaded now."""
        return self.current_version >= self.first_version


def lock_import(
    tx: BulkTransaction, table_id: str, version: int, terms: LoadTerms = IMPORTED
) -> ImportLock:
    """Lock a table whose next version must be this one.

    Raises:
        TableStateError: another one is at work, or the table does not take versions on these terms.
    """
    rows = tx.fetch_all("import_lock", table_id=table_id)
    if not rows:
        raise TableStateError(
            f"The table with the id {table_id} was dropped while its log was read.",
            hint="Another import by force may have begun; see `deltasql tables`.",
        )
    table_key, current, first, ict, state, properties, namespace, name = rows[0]
    # in a statement of its own: the one that waited for the lock saw what was there before
    found = tx.fetch_all("import_progress", table_id=table_id)
    segment, checkpoint, parts = found[0] if found else (None, None, 0)
    lock = ImportLock(
        table_id,
        table_key,
        current,
        first,
        ict,
        TableState(state),
        msgspec.json.decode(properties),
        f"{namespace}.{name}" if namespace else name,
        segment,
        checkpoint,
        int(parts),
    )
    if lock.state not in terms.states or lock.next_version != version:
        raise not_ready_error(lock, version, terms)
    return lock


def not_ready_error(lock: ImportLock, version: int, terms: LoadTerms = IMPORTED) -> TableStateError:
    """Return the error of a version that cannot be loaded now."""
    return TableStateError(
        f"Table {lock.full_name} is {lock.state} at {lock.current_version}; version {version} "
        f"cannot be {terms.verb}.",
        hint=terms.hint,
        table=lock.full_name,
        version=version,
    )


def noted(properties: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """Return a table's properties with these notes in `import_metadata`."""
    return properties | {"import_metadata": properties.get("import_metadata", {}) | notes}


@dataclass(frozen=True, slots=True)
class VersionLoad:
    """Writes versions from `first` to `last` in one transaction."""

    tx: BulkTransaction
    lock: ImportLock
    first: int
    last: int
    terms: LoadTerms = IMPORTED

    def insert(self, windows: Sequence[VersionWindow], notes: dict[str, Any]) -> None:
        """Write the versions of windows in ascending order.

        Raises:
            CatalogCorruptError: not all of them arrived.
        """
        versions = pa.concat_tables([window.versions for window in windows])
        times = commit_times(versions, self.lock.last_ict)
        self._insert_versions(_with_times(versions, times, self.lock.last_ict))
        self.tx.execute(
            "mirror_range",
            table_id=self.lock.table_id,
            first=self.first,
            last=self.last,
            digest=None,
            now=int(notes["imported_at_ms"]),
        )
        for window in windows:
            self._insert_others(window)
        self._advance(max(times), [one for window in windows for one in window.changes], notes)
        self._require_whole()

    def _insert_versions(self, rows: pa.Table) -> None:
        big = pc.greater(pc.binary_length(rows["payload"]), CHUNK_BYTES)
        if pc.any(big).as_py():
            rows = self._in_chunks(rows, big)
        place = rows.column_names.index("commit_id")
        rows = rows.set_column(place, "commit_id", pa.array(self._tokens(rows), pa.string()))
        origin = pa.repeat(pa.scalar(self.terms.origin), rows.num_rows)
        rows = rows.append_column("origin", origin)
        self.tx.insert("dl_table_versions", rows, table_id=self.lock.table_id)

    def _tokens(self, rows: pa.Table) -> list[str]:
        """Return the token of each version; one that an earlier version has already is replaced."""
        taken: set[str] = set()
        if self.lock.has_versions:
            self.tx.stage("create_import_tokens", rows.select(["commit_id"]))
            found = self.tx.fetch_all("import_tokens_taken", table_id=self.lock.table_id)
            taken = {token for (token,) in found}
        tokens = []
        columns = (rows[name].to_pylist() for name in ("version", "commit_id", "digest"))
        for version, commit_id, digest in zip(*columns, strict=True):
            token = log_token(version, digest) if commit_id in taken else commit_id
            taken.add(token)
            tokens.append(token)
        return tokens

    def _in_chunks(self, rows: pa.Table, big: pa.ChunkedArray) -> pa.Table:
        for row in rows.select(["version", "payload"]).filter(big).to_pylist():
            for number, start in enumerate(range(0, len(row["payload"]), CHUNK_BYTES)):
                self.tx.execute(
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
                self.tx.insert(name, rows, table_id=self.lock.table_id)
        for version, change in window.changes:
            place = {"table_id": self.lock.table_id, "version": version}
            if isinstance(change, Metadata):
                self.tx.execute("insert_metadata", **place, **metadata_columns(change))
            else:
                self.tx.execute("insert_protocol", **place, **protocol_columns(change))

    def _advance(self, newest: int, changes: Changes, notes: dict[str, Any]) -> None:
        properties = self.lock.properties
        if self.terms.is_import:
            properties = noted(properties, {**notes, "last_imported_version": self.last})
        for _, change in changes:
            if isinstance(change, Metadata):
                properties = with_settings(properties, change)
        self.tx.execute(
            "advance_import",
            table_id=self.lock.table_id,
            version=self.last,
            ict=max(newest, self.lock.last_ict),
            metadata_version=_last(changes, Metadata),
            protocol_version=_last(changes, Protocol),
            properties=dump_values(properties),
        )

    def _require_whole(self) -> None:
        """Count what has arrived; a bulk load that lost a version must not be committed."""
        place = {"table_id": self.lock.table_id, "first": self.first, "last": self.last}
        written = self.tx.fetch_all("count_versions", **place)[0][0]
        expected = self.last - self.first + 1
        if written != expected:
            raise CatalogCorruptError(
                f"{written} of {expected} versions from {self.first} on arrived; none is kept."
            )


def commit_times(versions: pa.Table, before: int) -> list[int]:
    """Return when each version was committed, as Delta's readers tell it.

    A commit's own timestamp counts as it is; else the time of its file, always later than all
    versions before.
    """
    times = []
    for own_time, modified in zip(
        versions["in_commit_timestamp"].to_pylist(),
        versions["modified_at"].to_pylist(),
        strict=True,
    ):
        time = own_time if own_time is not None else max(modified, before + 1)
        times.append(time)
        before = max(before, time)
    return times


def _with_times(versions: pa.Table, times: Sequence[int], newest: int) -> pa.Table:
    """Put in when each version was committed, and whether it is not later than all before."""
    before = accumulate(times[:-1], max, initial=newest)
    backdated = [time <= latest for time, latest in zip(times, before, strict=True)]
    rows = versions.set_column(1, "committed_at", pa.array(times, pa.int64()))
    return rows.append_column("is_backdated", pa.array(backdated, pa.bool_()))


def _last(changes: Changes, kind: type) -> int | None:
    return max((v for v, change in changes if isinstance(change, kind)), default=None)
