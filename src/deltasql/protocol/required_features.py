"""The features that a table's metadata asks for: one table from properties and columns to features.

Delta Spark refuses to read a log with table features whose metadata uses one that is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from deltasql.protocol.actions import Metadata
from deltasql.protocol.columns import (
    CONSTRAINT_PREFIX,
    TYPE_CHANGES,
    fields_with_paths,
    has_default,
    invariant,
    is_generated,
    is_identity,
)
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)

FEATURE_PREFIX = "delta.feature."


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def _is_given(_: str) -> bool:
    return True


# Which values of a property ask for which feature.
_BY_PROPERTY: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "delta.appendOnly": ("appendOnly", _is_true),
    "delta.checkpointPolicy": ("v2Checkpoint", lambda value: value.strip().lower() == "v2"),
    "delta.columnMapping.mode": ("columnMapping", lambda value: value.strip().lower() != "none"),
    "delta.coordinatedCommits.commitCoordinator-preview": ("coordinatedCommits-preview", _is_given),
    "delta.coordinatedCommits.commitCoordinatorConf-preview": (
        "coordinatedCommits-preview",
        _is_given,
    ),
    "delta.coordinatedCommits.tableConf-preview": ("coordinatedCommits-preview", _is_given),
    "delta.enableChangeDataCapture": ("changeDataFeed", _is_true),
    "delta.enableChangeDataFeed": ("changeDataFeed", _is_true),
    "delta.enableDeletionVectors": ("deletionVectors", _is_true),
    "delta.enableIcebergCompatV1": ("icebergCompatV1", _is_true),
    "delta.enableIcebergCompatV2": ("icebergCompatV2", _is_true),
    "delta.enableIcebergCompatV3": ("icebergCompatV3", _is_true),
    "delta.enableIcebergWriterCompatV1": ("icebergWriterCompatV1", _is_true),
    "delta.enableIcebergWriterCompatV3": ("icebergWriterCompatV3", _is_true),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp", _is_true),
    "delta.enableMaterializePartitionColumnsFeature": ("materializePartitionColumns", _is_true),
    "delta.enableRowTracking": ("rowTracking", _is_true),
    "delta.enableTypeWidening": ("typeWidening", _is_true),
    "delta.enableVariantShredding": ("variantShredding", _is_true),
    "delta.redirectReaderWriter-preview": ("redirectReaderWriter-preview", _is_given),
    "delta.redirectWriterOnly-preview": ("redirectWriterOnly-preview", _is_given),
    "delta.requireCheckpointProtectionBeforeVersion": (
        "checkpointProtection",
        lambda value: value.strip() != "0",
    ),
}
_BY_TYPE: Mapping[str, str] = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_BY_COLUMN: tuple[tuple[str, str, Callable[[StructField], bool]], ...] = (
    ("generatedColumns", "is generated", is_generated),
    ("identityColumns", "is an identity column", is_identity),
    ("allowColumnDefaults", "has a default", has_default),
    ("invariants", "has an invariant", lambda field: invariant(field) is not None),
    ("invariants", "is NOT NULL", lambda field: not field.nullable),
    ("typeWidening", "was widened", lambda field: TYPE_CHANGES in field.metadata),
)
# What a feature cannot be without.
_WITH: Mapping[str, tuple[str, ...]] = {
    "clustering": ("domainMetadata",),
    "icebergCompatV1": ("columnMapping",),
    "icebergCompatV2": ("columnMapping",),
    "icebergCompatV3": ("columnMapping", "rowTracking", "domainMetadata"),
    "rowTracking": ("domainMetadata",),
}
# Earlier names under which a table may have a feature.
_EARLIER: Mapping[str, str] = {
    "typeWidening": "typeWidening-preview",
    "variantShredding": "variantShredding-preview",
    "variantType": "variantType-preview",
}


def required_features(metadata: Metadata, listed: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the features that the metadata asks for, each with what asks for it.

    `listed` are features that the table has: one of an earlier name is enough.
    """
    found: dict[str, str] = {}
    for feature, cause in (
        *_asked_by_properties(metadata.configuration),
        *_asked_by_columns(parse_schema(metadata.schema_string)),
    ):
        name = _EARLIER.get(feature, feature)
        chosen = name if name in listed and feature not in listed else feature
        for each in (chosen, *_WITH.get(feature, ())):
            found.setdefault(each, cause)
    return found


def missing_features(metadata: Metadata, listed: frozenset[str]) -> dict[str, str]:
    """Return the features that the metadata asks for and the table does not have."""
    required = required_features(metadata, listed)
    return {name: cause for name, cause in required.items() if name not in listed}


def without_feature_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that stay in the metadata: `delta.feature.X` goes to the protocol."""
    return {k: v for k, v in configuration.items() if not k.startswith(FEATURE_PREFIX)}


def _asked_by_properties(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in configuration.items():
        feature, is_asked = _BY_PROPERTY.get(key, ("", _is_given))
        if feature and is_asked(value):
            yield feature, f"the property {key}={value}"
        elif key.startswith(CONSTRAINT_PREFIX):
            yield "checkConstraints", f"the property {key}"
        elif key.startswith(FEATURE_PREFIX):
            yield key.removeprefix(FEATURE_PREFIX), f"the property {key}"


def _asked_by_columns(schema: StructType) -> Iterator[tuple[str, str]]:
    for path, field in fields_with_paths(schema):
        for feature, what, is_asked in _BY_COLUMN:
            if is_asked(field):
                yield feature, f"the column {path}, which {what}"
        for kind in _plain_types(field.type):
            if kind in _BY_TYPE:
                yield _BY_TYPE[kind], f"the column {path} of type {kind}"


def _plain_types(kind: DataType) -> Iterator[str]:
    """Yield the types of a column's values; fields of structs are columns of their own."""
    match kind:
        case StructType():
            return
        case ArrayType(element=element):
            yield from _plain_types(element)
        case MapType(key=key, value=value):
            yield from _plain_types(key)
            yield from _plain_types(value)
        case _:
            yield kind.name
