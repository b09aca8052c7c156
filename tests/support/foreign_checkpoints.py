"""Checkpoints as other writers may make them: their columns, and how they are refused."""

import pyarrow as pa
import pytest

from deltasql.errors import MalformedActionError
from naive_checkpoints import VERSION

TEXT, LONG = pa.string(), pa.int64()
MAP = pa.map_(TEXT, TEXT)
ADD = {
    "path": "p",
    "partitionValues": [("day", "a")],
    "size": 5,
    "modificationTime": 6,
    "dataChange": False,
    "stats": '{"numRecords":3}',
}
PLAIN_ADD = pa.struct(
    [
        ("path", TEXT),
        ("partitionValues", MAP),
        ("size", LONG),
        ("modificationTime", LONG),
        ("dataChange", pa.bool_()),
        ("stats", TEXT),
    ]
)
RULES = {
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    "metaData": {"id": "i", "schemaString": "{}", "partitionColumns": ["day"]},
}


def whole_table(**head) -> pa.Table:
    """One row per action: protocol, metaData, then what is given, then an add and a remove."""
    kinds = {
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        "metaData": pa.struct(
            [("id", TEXT), ("schemaString", TEXT), ("partitionColumns", pa.list_(TEXT))]
        ),
        "txn": pa.struct([("appId", TEXT), ("version", LONG), ("lastUpdated", LONG)]),
        "domainMetadata": pa.struct(
            [("domain", TEXT), ("configuration", TEXT), ("removed", pa.bool_())]
        ),
        "add": PLAIN_ADD,
        "remove": pa.struct([("path", TEXT), ("deletionTimestamp", LONG)]),
    }
    bodies = {**RULES, **head, "add": ADD, "remove": {"path": "old", "deletionTimestamp": 7}}
    rows = [{kind: body} for kind, body in bodies.items()]
    schema = pa.schema([(kind, kinds[kind]) for kind in bodies])
    return pa.Table.from_pylist(rows, schema=schema)


def refused(call, *parts: str) -> MalformedActionError:
    with pytest.raises(MalformedActionError) as caught:
        call()
    for part in (str(VERSION), *parts):
        assert part in caught.value.message
    return caught.value
