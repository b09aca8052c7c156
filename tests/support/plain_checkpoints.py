"""Checkpoints of a made-up history, as a simple writer would make them."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.protocol.codec import to_json_object
from histories import History

_MAPS = {"partitionValues", "configuration", "tags"}
_TEXT, _LONG, _MAP = pa.string(), pa.int64(), pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", _TEXT),
        ("pathOrInlineDv", _TEXT),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", _LONG),
    ]
)
_FILE = [("path", _TEXT), ("partitionValues", _MAP), ("size", _LONG), ("deletionVector", _VECTOR)]
SCHEMA = pa.schema(
    {
        "protocol": pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", pa.list_(_TEXT)),
                ("writerFeatures", pa.list_(_TEXT)),
            ]
        ),
        "metaData": pa.struct(
            [
                ("id", _TEXT),
                ("format", pa.struct([("provider", _TEXT)])),
                ("schemaString", _TEXT),
                ("partitionColumns", pa.list_(_TEXT)),
                ("configuration", _MAP),
                ("createdTime", _LONG),
            ]
        ),
        "txn": pa.struct([("appId", _TEXT), ("version", _LONG), ("lastUpdated", _LONG)]),
        "domainMetadata": pa.struct(
            [("domain", _TEXT), ("configuration", _TEXT), ("removed", pa.bool_())]
        ),
        "add": pa.struct(
            [*_FILE, ("modificationTime", _LONG), ("dataChange", pa.bool_()), ("stats", _TEXT)]
        ),
        "remove": pa.struct([*_FILE, ("deletionTimestamp", _LONG), ("dataChange", pa.bool_())]),
    }
)


def checkpoint_of(history: History, version: int) -> bytes:
    """The checkpoint of a version, as a simple writer would make it."""
    state = history.states()[version]
    rows: list[dict[str, Any]] = [
        {"protocol": _told(state.protocol)},
        {"metaData": _told(state.metadata)},
        *({"txn": _told(txn)} for txn in state.txns.values()),
        *({"domainMetadata": _told(domain)} for domain in state.domains.values()),
        *({"add": _told(add)} for add in state.files.values()),
        *({"remove": _told(remove)} for remove in state.tombstones.values()),
    ]
    return parquet_of(pa.Table.from_pylist(rows, schema=SCHEMA))


def parquet_of(table: pa.Table, compression: str = "snappy") -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression=compression)
    return out.getvalue()


def _told(action: Any) -> dict[str, Any]:
    (body,) = to_json_object(action).values()
    return {
        k: list(v.items()) if isinstance(v, dict) and k in _MAPS else v for k, v in body.items()
    }
