"""What a bulk load takes: the rows of whole versions, folded, as Arrow.

A file that is added inside a window has one row, wherever it belongs: live, or ended by a later
version of the same window. Only what ends a file of an earlier window is told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from deltasql.protocol.actions import Metadata, Protocol

HASH = pa.binary(16)
_TEXT, _LONG, _BOOL, _BYTES = pa.string(), pa.int64(), pa.bool_(), pa.binary()

# A file as an add tells it, in the columns of dl_files.
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
    ]
)
_ENDED = [
    ("removed_version", _LONG),
    ("removal", _TEXT),
    ("deletion_timestamp", _LONG),
    ("remove_data_change", _BOOL),
    ("extended_file_metadata", _BOOL),
]
# A file that begins in the window, or a tombstone of one that never did (added_version is null).
# `is_first`: nothing in the window speaks of its key before.
FILE_SCHEMA = pa.schema([*ADD_SCHEMA, ("added_version", _LONG), *_ENDED, ("is_first", _BOOL)])
# What ends a file of an earlier window, with all that a tombstone needs if there was no such file.
ENDING_SCHEMA = pa.schema(
    [
        ("number", _LONG),
        ("path", _TEXT),
        ("file_key", HASH),
        ("path_hash", HASH),
        ("dv_id", _TEXT),
        ("size", _LONG),
        ("partition_values", _TEXT),
        ("deletion_vector", _TEXT),
        *_ENDED,
    ]
)
# `modified_at`: the time of the commit file itself, which counts where a commit tells none.
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

# What the log says of its files, unfolded, for whoever checks the load: the hash of a file's key,
# the version, and of an add its size and a hash of what else it says; see `parity.events`.
EVENT_SCHEMA = pa.schema(
    [("key", pa.uint64()), ("version", _LONG), ("size", _LONG), ("content", pa.uint64())]
)


@dataclass(frozen=True, slots=True)
class VersionWindow:
    """Whole versions in a row, ready to be written."""

    first: int
    last: int
    versions: pa.Table
    files: pa.Table
    endings: pa.Table
    txns: pa.Table
    domains: pa.Table
    events: pa.Table
    changes: tuple[tuple[int, Metadata | Protocol], ...]

    def __len__(self) -> int:
        """The number of versions."""
        return self.last - self.first + 1

    def without_files(self) -> VersionWindow:
        """Return the window without its rows of files and its payloads, which take most room."""
        return replace(
            self,
            versions=self.versions.drop_columns("payload"),
            files=FILE_SCHEMA.empty_table(),
            endings=ENDING_SCHEMA.empty_table(),
        )
