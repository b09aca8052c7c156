"""Representative commits as values: the canonical form is frozen on them, fuzzing starts here."""

from deltasql.protocol.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
    UnknownAction,
)

NOW = 1_767_225_600_000
TABLE_ID = "3d5b7a52-6a6c-4d0e-9f6e-0f8f5f1f9a11"
SCHEMA_STRING = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"name","type":"string","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)
ODD_TEXT = 'é 日本 😀 \ue000 \u2028 \x7f "quoted" back\\slash /slash <&> \b\t\n\f\r\x1f'


def info(**changes) -> CommitInfo:
    values = {
        "timestamp": NOW,
        "in_commit_timestamp": NOW,
        "operation": "WRITE",
        "operation_parameters": {"partitionBy": '["day"]', "mode": "Append"},
        "operation_metrics": {"numOutputRows": "2", "numFiles": "1"},
        "read_version": 0,
        "isolation_level": "Serializable",
        "is_blind_append": True,
        "engine_info": "deltasql/0",
        "txn_id": "6f1c2f3a-0000-4000-8000-000000000001",
    }
    return CommitInfo(**{**values, **changes})


def metadata(**changes) -> Metadata:
    values = {
        "id": TABLE_ID,
        "format": Format(),
        "schema_string": SCHEMA_STRING,
        "partition_columns": ["day"],
        "configuration": {"delta.enableInCommitTimestamps": "true", "a": "z", "B": "y"},
        "created_time": NOW,
    }
    return Metadata(**{**values, **changes})


def add(path: str, **changes) -> Add:
    values = {
        "path": path,
        "partition_values": {"day": "a"},
        "size": 494,
        "modification_time": NOW,
        "data_change": True,
        "stats": '{"numRecords":2,"minValues":{"id":0},"maxValues":{"id":1},"nullCount":{"id":0}}',
    }
    return Add(**{**values, **changes})


def remove(path: str, **changes) -> Remove:
    values = {
        "path": path,
        "deletion_timestamp": NOW,
        "data_change": True,
        "extended_file_metadata": True,
        "partition_values": {"day": "a"},
        "size": 494,
    }
    return Remove(**{**values, **changes})


def vector(number: int = 1) -> DeletionVector:
    return DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=number,
        size_in_bytes=40,
        cardinality=6,
    )


_LEGACY = Protocol(min_reader_version=1, min_writer_version=2)
_FEATURES = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["timestampNtz", "deletionVectors"],
    writer_features=["timestampNtz", "invariants", "deletionVectors", "appendOnly"],
)

COMMITS: dict[str, list[Action]] = {
    "create": [metadata(), _LEGACY, info(operation="CREATE TABLE", read_version=None)],
    "append": [
        add("day=a/b.parquet"),
        add("day=a/a.parquet", tags={"z": "1", "a": None}),
        Txn(app_id="zeta", version=42, last_updated=NOW),
        Txn(app_id="alpha", version=2**63 - 1),
        info(),
    ],
    "null_partition_values": [
        remove("old.parquet", partition_values={"day": None}),
        Cdc(
            path="_change_data/c.parquet",
            partition_values={"day": None},
            size=1,
            data_change=False,
        ),
        add("day=__HIVE_DEFAULT_PARTITION__/n.parquet", partition_values={"day": None}),
    ],
    "features_unsorted": [_FEATURES, metadata(name="t", description="d"), info()],
    "unicode_and_control_characters": [
        add(f"{ODD_TEXT}.parquet", partition_values={"day": ODD_TEXT}, tags={ODD_TEXT: ODD_TEXT}),
        DomainMetadata(domain=ODD_TEXT, configuration='{"k":"v"}', removed=False),
        info(user_metadata=ODD_TEXT, user_name="日本"),
    ],
    "deletion_vectors": [
        add("f.parquet", deletion_vector=vector(2)),
        remove("f.parquet", deletion_vector=vector(1)),
        remove("f.parquet"),
        add("g.parquet", deletion_vector=vector(), base_row_id=0, default_row_commit_version=7),
        info(operation="DELETE", is_blind_append=False),
    ],
    "unknown_fields": [
        add("u.parquet", extra={"zeta": {"b": 1, "a": [None, 1.5]}, "Alpha": True}),
        remove("u-old.parquet", extra={"aardvark": 1}),
        info(extra={"future": {"y": 1, "x": None}}),
        add(
            "v.parquet",
            deletion_vector=DeletionVector(
                storage_type="i",
                path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0",
                size_in_bytes=40,
                cardinality=6,
                extra={"maxRowIndex": 9},
            ),
        ),
        metadata(format=Format(options={"b": "2", "a": "1"}, extra={"x": "y"}), extra={"n": 1}),
    ],
    "unknown_actions": [
        UnknownAction(kind="zebra", body={"b": 1, "a": {"d": [], "c": {}}}),
        UnknownAction(kind="aardvark", body=[3, 2, 1]),
        info(operation_metrics=None, operation_parameters={}),
    ],
    "domains": [
        DomainMetadata(domain="z", configuration="", removed=True),
        DomainMetadata(domain="a", configuration='{"k": "kept as it came"}', removed=False),
    ],
    "absolute_paths": [
        add("s3://bucket/a.parquet"),
        add("file:///lake/a.parquet"),
        remove("/lake/b.parquet"),
        info(),
    ],
    "numbers": [
        add("n.parquet", size=0, modification_time=-1, base_row_id=2**63 - 1, stats=None),
        info(
            operation_metrics={"big": 2**70, "real": 1e-7, "half": 0.5, "minus": -0.0, "e": 1e22},
            operation_parameters={"flag": False, "none": None, "list": [1, {"b": 2, "a": 1}]},
            timestamp=-(2**63),
        ),
    ],
}
