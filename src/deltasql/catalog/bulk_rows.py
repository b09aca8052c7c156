"""What a bulk load takes: the rows of whole versions as Arrow.

The adds and removes of a window stand in the order of the log. Which of them ends which is for
`segment_fold`, which sees the windows of a segment from the newest to the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
# and of an add its size and a hash of its other fields; see `parity.events`.
EVENT_SCHEMA = pa.schema(
    [("key", pa.uint64()), ("version", _LONG), ("size", _LONG), ("content", pa.uint64())]
)


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
