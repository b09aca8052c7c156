"""Table properties: their names, Delta's defaults as typed values, and the features they ask for.

The features that a table's metadata asks for: one table from properties and columns to features.
Delta Spark refuses to read a log with table features whose metadata uses one that is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

from deltasql.errors import BadArgumentError, nearest
from deltasql.protocol.actions import Metadata
from deltasql.protocol.schema.columns import (
    CONSTRAINT_PREFIX,
    TYPE_CHANGES,
    fields_with_paths,
    has_default,
    invariant,
    is_generated,
    is_identity,
)
from deltasql.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)

FEATURE_PREFIX = "delta.feature."
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

FENCE_PROPERTY = "deltasql.fence"
STATS_INDEX_PROPERTY = "deltasql.statsIndexColumns"
SETTING_PREFIX = "deltasql.mirror."

# Delta Spark 4.4 knows these; a name that it does not know it refuses.
DELTA_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.autoOptimize",
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.castIcebergTimeType",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.columnMapping.maxColumnId",
        "delta.columnMapping.mode",
        "delta.compatibility.symlinkFormatManifest.enabled",
        "delta.coordinatedCommits.commitCoordinator-preview",
        "delta.coordinatedCommits.commitCoordinatorConf-preview",
        "delta.coordinatedCommits.tableConf-preview",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.dataSkippingStringPrefixLength",
        "delta.deletedFileRetentionDuration",
        "delta.dropFeatureTruncateHistory.retentionDuration",
        "delta.enableChangeDataCapture",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.enableIcebergCompatV1",
        "delta.enableIcebergCompatV2",
        "delta.enableIcebergCompatV3",
        "delta.enableInCommitTimestamps",
        "delta.enableMaterializePartitionColumnsFeature",
        "delta.enableRowTracking",
        "delta.enableTypeWidening",
        "delta.enableVariantShredding",
        "delta.ignoreIcebergBucketPartition",
        "delta.ignoreProtocolDefaults",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.isolationLevel",
        "delta.logRetentionDuration",
        "delta.parquet.format.version",
        "delta.randomPrefixLength",
        "delta.randomizeFilePrefixes",
        "delta.redirectReaderWriter-preview",
        "delta.redirectWriterOnly-preview",
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.rowTrackingSuspended",
        "delta.sampleRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.universalFormat.enabledFormats",
        "delta.universalFormat.iceberg.atomicConversion.supported",
        "delta.writePartitionColumnsToParquet",
    }
)

# Delta's protocol, its kernel, Databricks or delta-rs know these.
_OTHER_PROPERTIES = frozenset(
    {
        "delta.enableIcebergWriterCompatV1",
        "delta.enableIcebergWriterCompatV3",
        "delta.parquet.compression.codec",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)

# The protocol action says these; Delta does not let them into the metadata.
_PROTOCOL_PROPERTIES = frozenset({"delta.minReaderVersion", "delta.minWriterVersion"})
_KNOWN = DELTA_PROPERTIES | _OTHER_PROPERTIES | {FENCE_PROPERTY, STATS_INDEX_PROPERTY}
_PREFIXES = (CONSTRAINT_PREFIX, FEATURE_PREFIX, SETTING_PREFIX)

DEFAULT_STATS_INDEX_COLUMNS = 4

_DEFAULTS: Mapping[str, str] = {
    "delta.appendOnly": "false",
    "delta.checkpointInterval": "10",
    "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.columnMapping.mode": "none",
    "delta.dataSkippingNumIndexedCols": "32",
    "delta.dataSkippingStringPrefixLength": "32",
    "delta.deletedFileRetentionDuration": "interval 1 week",
    "delta.enableChangeDataFeed": "false",
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "true",
    "delta.enableInCommitTimestamps": "false",
    "delta.enableRowTracking": "false",
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": "interval 30 days",
    FENCE_PROPERTY: "true",
    STATS_INDEX_PROPERTY: str(DEFAULT_STATS_INDEX_COLUMNS),
}
_BOOLEANS = {key for key, value in _DEFAULTS.items() if value in {"true", "false"}} | {
    key for key in DELTA_PROPERTIES if key.startswith("delta.enable")
}
_CHOICES = {
    "delta.checkpointPolicy": {"classic", "v2"},
    "delta.columnMapping.mode": {"none", "name", "id"},
}
_LEAST = {"delta.checkpointInterval": 1, "delta.dataSkippingNumIndexedCols": -1}
_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_INTERVAL = re.compile(r"(-?\d+)\s+([a-z]+?)s?(?=\s|$)")


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


def check_names(names: Iterable[str]) -> None:
    """Refuse names that begin as Delta's or deltasql's own and are none of theirs.

    Raises:
        BadArgumentError: names the property.
    """
    for name in names:
        if name in _PROTOCOL_PROPERTIES:
            raise BadArgumentError(
                f"The property {name} cannot be set.",
                hint="The protocol follows from the features that the table uses.",
            )
        if name.startswith(("delta.", "deltasql.")) and not _is_known(name):
            raise BadArgumentError(f"There is no property {name}.", hint=_hint(name))


def _is_known(name: str) -> bool:
    return name in _KNOWN or any(name.startswith(prefix) and name != prefix for prefix in _PREFIXES)


def _hint(name: str) -> str:
    meant = nearest(name, _KNOWN)
    if meant:
        return f"Did you mean {meant}?"
    return "Names of your own must not begin with delta. or deltasql."


def is_setting(key: str) -> bool:
    """Tell whether a table property is a setting of deltasql's own, or read as one."""
    return key.startswith((SETTING_PREFIX, "mirror.")) or key == "delta.checkpointInterval"


def read(configuration: Mapping[str, str], key: str) -> str:
    """Return a property's text, or Delta's default where the table does not set it."""
    text = configuration.get(key)
    return _DEFAULTS[key] if text is None else text


def read_bool(configuration: Mapping[str, str], key: str) -> bool:
    """Return a property that is true or false, in any case."""
    return read(configuration, key).strip().lower() == "true"


def read_int(configuration: Mapping[str, str], key: str) -> int:
    """Return a whole-number property.

    Raises:
        BadArgumentError: the table's value is not a whole number.
    """
    text = read(configuration, key).strip()
    try:
        return int(text)
    except ValueError as error:
        raise BadArgumentError(f"The property {key} is {text!r}, not a whole number.") from error


def read_interval(configuration: Mapping[str, str], key: str) -> timedelta:
    """Return a duration such as `interval 1 week` or `interval 2 days 12 hours`."""
    text = read(configuration, key)
    spelled = text.strip().lower().removeprefix("interval").strip()
    parts = _INTERVAL.findall(spelled)
    if not parts or _INTERVAL.sub("", spelled).strip() or any(u not in _UNITS for _, u in parts):
        raise BadArgumentError(f"The property {key} is {text!r}, not an interval like '7 days'.")
    try:
        return sum((int(count) * _UNITS[unit] for count, unit in parts), timedelta())
    except (OverflowError, ValueError) as error:
        raise BadArgumentError(f"The property {key} is longer than any interval.") from error


def check_changes(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Check the properties that a commit sets anew; what other writers have set stays.

    Raises:
        BadArgumentError: names the property and what it may be.
    """
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    check(changed)
    named = next((key for key in changed if key.startswith(FEATURE_PREFIX)), None)
    if named is not None:
        raise BadArgumentError(f"The property {named} belongs into the protocol, as a feature.")


def check(properties: Mapping[str, str]) -> None:
    """Refuse properties that nobody knows, and values that readers or writers would trip over.

    Raises:
        BadArgumentError: names the property and what it may be.
    """
    check_names(properties)
    for key, value in properties.items():
        if not isinstance(value, str):
            raise BadArgumentError(f"The property {key} must be text, not {type(value).__name__}.")
        if key in _BOOLEANS and value.strip().lower() not in {"true", "false"}:
            raise BadArgumentError(f"The property {key} must be true or false, not {value!r}.")
        if key.startswith("delta.") and key.endswith("RetentionDuration"):
            read_interval(properties, key)
        if key in _CHOICES and value.strip().lower() not in _CHOICES[key]:
            choices = " or ".join(sorted(_CHOICES[key]))
            raise BadArgumentError(f"The property {key} must be {choices}, not {value!r}.")
        if key in _LEAST and read_int(properties, key) < _LEAST[key]:
            raise BadArgumentError(f"The property {key} must be at least {_LEAST[key]}.")
    if read(properties, "delta.isolationLevel") != "Serializable":
        raise BadArgumentError("The property delta.isolationLevel may only be Serializable.")
