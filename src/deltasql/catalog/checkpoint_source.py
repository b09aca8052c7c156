"""What a checkpoint of one version is made of, read from SQL in bounded memory.

All queries are filtered by version, so the source stays right while the table moves on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltasql.catalog.file_list import COLUMNS
from deltasql.catalog.snapshots import Snapshot
from deltasql.protocol.actions import Txn
from deltasql.protocol.checkpoint import ADD_COLUMNS, REMOVE_COLUMNS
from deltasql.protocol.properties import read_interval

_TXN_RETENTION = "delta.setTransactionRetentionDuration"
_KINDS: dict[str, pa.DataType] = {
    **COLUMNS,
    "path_key": pa.string(),
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

    def adds(self, columns: Sequence[str] = ADD_COLUMNS) -> Iterator[pa.RecordBatch]:
        """Yield the live files in the order of their paths."""
        queries = self.snapshot.database.queries
        inner = tuple(dict.fromkeys((*columns, "path", "path_key", "dv_id")))
        files = queries.text(
            "files_at",
            columns=", ".join(f"f.{name}" for name in inner),
            live_filter="",
            filter="",
            live_hint="",
        )
        text = queries.text("in_path_order", columns=_listed(columns), files=files)
        return self._batches(text, columns, {})

    def removes(self, columns: Sequence[str] = REMOVE_COLUMNS) -> Iterator[pa.RecordBatch]:
        """Yield the tombstones that had not expired by the time of the commit, by path."""
        text = self.snapshot.database.queries.text("tombstones_at", columns=_listed(columns))
        return self._batches(text, columns, {"cutoff": self._cutoff()})

    def _cutoff(self) -> int:
        """By the commit's time and not by ours: the same version gives the same bytes."""
        kept = read_interval(
            self.snapshot.metadata.configuration, "delta.deletedFileRetentionDuration"
        )
        return self.snapshot.timestamp - int(kept.total_seconds() * 1000)

    def _batches(
        self, text: str, columns: Sequence[str], more: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        snapshot = self.snapshot
        params = {"table_id": snapshot.table.table_id, "version": snapshot.version, **more}
        schema = pa.schema([(name, _KINDS[name]) for name in columns])
        return snapshot.database.arrow_batches(text, params, schema)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(f"f.{name}" for name in columns)
