"""Names of table properties: those that Delta and deltasql know, and the refusal of all others."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.errors import BadArgumentError
from deltasql.errors.nearest import nearest
from deltasql.protocol.columns import CONSTRAINT_PREFIX
from deltasql.protocol.required_features import FEATURE_PREFIX

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
