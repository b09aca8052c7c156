"""What a checkpoint of one version is made of, read from SQL in bounded memory.

All queries are filtered by version, so the source stays right while the table moves on. The files
come from one state of the database: none is missed or seen twice because it ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltasql.database.port import BatchRead
from deltasql.errors import VersionNotFoundError
from deltasql.metastore.snapshot.file_list import COLUMNS
from deltasql.metastore.snapshot.snapshot import Snapshot
from deltasql.protocol.actions import Txn
from deltasql.protocol.checkpoint.layout import ADD_COLUMNS, REMOVE_COLUMNS
from deltasql.protocol.properties import read_interval

_TXN_RETENTION = "delta.setTransactionRetentionDuration"
_KINDS: dict[str, pa.DataType] = {
    **COLUMNS,
    "deletion_timestamp": pa.int64(),
    "extended_file_metadata": pa.bool_(),
}


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """One version of a table as a checkpoint needs it."""

    snapshot: Snapshot

    def txns(self) -> list[Txn]:
        """Return the applications' versions that have not expired by the time of the commit."""
        found = self.snapshot.txns()
        configuration = self.snapshot.metadata.configuration
        if _TXN_RETENTION not in configuration:
            return found
        kept = read_interval(configuration, _TXN_RETENTION)
        oldest = self.snapshot.timestamp - kept.total_seconds() * 1000
        return [t for t in found if t.last_updated is not None and t.last_updated > oldest]

    @contextmanager
    def read(self) -> Iterator[CheckpointRead]:
        """Open a read of the files, for one thread, as one state of the database has them.

        Raises:
            VersionNotFoundError: the catalog has forgotten the version by now.
        """
        snapshot = self.snapshot
        place = {"table_id": snapshot.table.table_id, "version": snapshot.version}
        with snapshot.database.read_batches() as read:
            found = read.fetch_all("ended_since", **place)
            if not found or found[0][0] > snapshot.version:
                raise VersionNotFoundError(
                    f"Version {snapshot.version} of {snapshot.table.full_name} "
                    "was forgotten while it was read.",
                    table=snapshot.table.full_name,
                    version=snapshot.version,
                )
            yield CheckpointRead(snapshot, read, bool(found[0][1]), place)


@dataclass(frozen=True, slots=True)
class CheckpointRead:
    """The files of one version, in the order in which they came; one query at a time."""

    snapshot: Snapshot
    source: BatchRead
    has_ended: bool
    place: dict[str, Any]

    def adds(self, columns: Sequence[str] = ADD_COLUMNS) -> Iterator[pa.RecordBatch]:
        """Yield the live files."""
        inner = tuple(dict.fromkeys((*columns, "added_version", "file_id")))
        text = self.snapshot.database.queries.text(
            "in_order" if self.has_ended else "live_in_order",
            columns=_listed(columns),
            inner=_listed(inner),
        )
        return self.source.batches(text, self.place, _schema(columns))

    def removes(self, columns: Sequence[str] = REMOVE_COLUMNS) -> Iterator[pa.RecordBatch]:
        """Yield the tombstones that had not expired by the time of the commit."""
        text = self.snapshot.database.queries.text("tombstones_at", columns=_listed(columns))
        return self.source.batches(text, {**self.place, "cutoff": self._cutoff()}, _schema(columns))

    def _cutoff(self) -> int:
        """By the commit's time and not by ours: the same version gives the same bytes."""
        kept = read_interval(
            self.snapshot.metadata.configuration, "delta.deletedFileRetentionDuration"
        )
        return self.snapshot.timestamp - int(kept.total_seconds() * 1000)


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, _KINDS[name]) for name in columns])


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f"f.{name}" for name in columns)
