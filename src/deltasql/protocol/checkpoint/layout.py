"""A classic checkpoint as Arrow: Spark's schema, and the rows of a table's state in it.

Every field may be null, one row holds one action. Files come in columns as SQL keeps them and are
turned by whole columns: a checkpoint of a million files is built in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltasql.protocol.checkpoint.parsed_columns import ParsedColumns
from deltasql.protocol.features import writer_features
from deltasql.protocol.properties import read_bool

_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()
_MAP, _LIST = pa.map_(_TEXT, _TEXT), pa.list_(pa.field("element", _TEXT))
_VECTOR = pa.struct(
    [
        ("storageType", _TEXT),
        ("pathOrInlineDv", _TEXT),
        ("offset", _INT),
        ("sizeInBytes", _INT),
        ("cardinality", _LONG),
        ("maxRowIndex", _LONG),
    ]
)
_TXN = [("appId", _TEXT), ("version", _LONG), ("lastUpdated", _LONG)]
_ADD = [
    ("path", _TEXT),
    ("partitionValues", _MAP),
    ("size", _LONG),
    ("modificationTime", _LONG),
    ("dataChange", _BOOL),
    ("tags", _MAP),
    ("deletionVector", _VECTOR),
    ("baseRowId", _LONG),
    ("defaultRowCommitVersion", _LONG),
    ("clusteringProvider", _TEXT),
]
_REMOVE = [
    ("path", _TEXT),
    ("deletionTimestamp", _LONG),
    ("dataChange", _BOOL),
    ("extendedFileMetadata", _BOOL),
    ("partitionValues", _MAP),
    ("size", _LONG),
    ("deletionVector", _VECTOR),
    ("baseRowId", _LONG),
    ("defaultRowCommitVersion", _LONG),
]
_METADATA = [
    ("id", _TEXT),
    ("name", _TEXT),
    ("description", _TEXT),
    ("format", pa.struct([("provider", _TEXT), ("options", _MAP)])),
    ("schemaString", _TEXT),
    ("partitionColumns", _LIST),
    ("configuration", _MAP),
    ("createdTime", _LONG),
]
_PROTOCOL = [
    ("minReaderVersion", _INT),
    ("minWriterVersion", _INT),
    ("readerFeatures", _LIST),
    ("writerFeatures", _LIST),
]
_DOMAIN = [("domain", _TEXT), ("configuration", _TEXT), ("removed", _BOOL)]

# The columns of the file list that a checkpoint is made of, as SQL names them.
ADD_COLUMNS = (
    "path",
    "dv_id",
    "partition_values",
    "size",
    "modification_time",
    "tags",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
    "clustering_provider",
    "stats",
)
REMOVE_COLUMNS = (
    "path",
    "dv_id",
    "deletion_timestamp",
    "extended_file_metadata",
    "partition_values",
    "size",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
)


class CheckpointShape:
    """The schema of one table's checkpoints, and its rows."""

    def __init__(self, metadata: Metadata, protocol: Protocol) -> None:
        configuration = metadata.configuration
        has_vectors = "deletionVectors" in writer_features(protocol)
        self._has_stats = read_bool(configuration, "delta.checkpoint.writeStatsAsJson")
        wants_parsed = read_bool(configuration, "delta.checkpoint.writeStatsAsStruct")
        self._parsed = ParsedColumns(metadata, has_vectors=has_vectors) if wants_parsed else None
        add = [*_ADD, *([("stats", _TEXT)] if self._has_stats else [])]
        if self._parsed is not None:
            add += self._parsed.fields()
        self.schema = pa.schema(
            [
                ("txn", pa.struct(_TXN)),
                ("add", pa.struct(add)),
                ("remove", pa.struct(_REMOVE)),
                ("metaData", pa.struct(_METADATA)),
                ("protocol", pa.struct(_PROTOCOL)),
                ("domainMetadata", pa.struct(_DOMAIN)),
            ]
        )

    def head(
        self,
        protocol: Protocol,
        metadata: Metadata,
        txns: Sequence[Txn],
        domains: Sequence[DomainMetadata],
    ) -> pa.Table:
        """Return the rows of everything but files: protocol, metadata, txns, domains."""
        rows: list[dict[str, Any]] = [
            {"protocol": _protocol(protocol)},
            {"metaData": _metadata(metadata)},
        ]
        rows += [
            {"txn": {"appId": t.app_id, "version": t.version, "lastUpdated": t.last_updated}}
            for t in sorted(txns, key=lambda txn: txn.app_id.encode())
        ]
        rows += [
            {
                "domainMetadata": {
                    "domain": d.domain,
                    "configuration": d.configuration,
                    "removed": False,
                }
            }
            for d in sorted(domains, key=lambda one: one.domain.encode())
        ]
        return pa.Table.from_pylist(rows, schema=self.schema)

    def adds(self, files: pa.RecordBatch) -> pa.Table:
        """Return one `add` row per live file."""
        count = files.num_rows
        columns = {
            "path": files.column("path"),
            "partitionValues": _maps(files.column("partition_values")),
            "size": files.column("size"),
            "modificationTime": files.column("modification_time"),
            # what a checkpoint brings is no change; Delta Spark writes it so too
            "dataChange": pa.repeat(pa.scalar(value=False), count),
            "tags": _maps(files.column("tags")),
            "deletionVector": _vectors(files.column("deletion_vector")),
            "baseRowId": files.column("base_row_id"),
            "defaultRowCommitVersion": files.column("default_row_commit_version"),
            "clusteringProvider": files.column("clustering_provider"),
        }
        if self._has_stats:
            columns["stats"] = files.column("stats")
        if self._parsed is not None:
            columns |= self._parsed.arrays(files)
        return self._rows("add", columns, count)

    def removes(self, files: pa.RecordBatch) -> pa.Table:
        """Return one `remove` row per tombstone."""
        count = files.num_rows
        columns = {
            "path": files.column("path"),
            "deletionTimestamp": files.column("deletion_timestamp"),
            "dataChange": pa.repeat(pa.scalar(value=False), count),
            "extendedFileMetadata": files.column("extended_file_metadata"),
            "partitionValues": _maps(files.column("partition_values")),
            "size": files.column("size"),
            "deletionVector": _vectors(files.column("deletion_vector")),
            "baseRowId": files.column("base_row_id"),
            "defaultRowCommitVersion": files.column("default_row_commit_version"),
        }
        return self._rows("remove", columns, count)

    def _rows(self, kind: str, columns: Mapping[str, pa.Array], count: int) -> pa.Table:
        wanted = self.schema.field(kind).type
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        arrays = [columns[field.name] for field in fields]
        rows = pa.StructArray.from_arrays(arrays, fields=fields)
        return pa.Table.from_arrays(
            [rows if f.name == kind else pa.nulls(count, f.type) for f in self.schema],
            schema=self.schema,
        )


def _protocol(action: Protocol) -> dict[str, Any]:
    def listed(features: list[str] | None) -> list[str] | None:
        return None if features is None else sorted(features)

    return {
        "minReaderVersion": action.min_reader_version,
        "minWriterVersion": action.min_writer_version,
        "readerFeatures": listed(action.reader_features),
        "writerFeatures": listed(action.writer_features),
    }


def _metadata(action: Metadata) -> dict[str, Any]:
    return {
        "id": action.id,
        "name": action.name,
        "description": action.description,
        "format": {
            "provider": action.format.provider,
            "options": sorted(action.format.options.items()),
        },
        "schemaString": action.schema_string,
        "partitionColumns": action.partition_columns,
        "configuration": sorted(action.configuration.items()),
        "createdTime": action.created_time,
    }


def _maps(texts: pa.Array) -> pa.Array:
    """Return JSON objects as maps; each different text is decoded once."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _MAP)
    encoded = texts.dictionary_encode()
    found = [
        None if text is None else sorted(msgspec.json.decode(text).items())
        for text in encoded.dictionary.to_pylist()
    ]
    return pa.array(found, _MAP).take(encoded.indices)


def _vectors(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _VECTOR)
    found = [None if text is None else msgspec.json.decode(text) for text in texts.to_pylist()]
    return pa.array(found, _VECTOR)
