"""Table features: what a table asks of clients, what we know and refuse, and our claim of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.properties import (
    FENCE_PROPERTY,
    missing_features,
    read_bool,
    required_features,
)

FENCE = "deltasqlManaged"

# The reader and the writer version from which on a legacy protocol stands for a feature.
_LEGACY: Mapping[str, tuple[int, int]] = {
    "appendOnly": (1, 2),
    "invariants": (1, 2),
    "checkConstraints": (1, 3),
    "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4),
    "columnMapping": (2, 5),
    "identityColumns": (1, 6),
}
_LEGACY_PAIRS = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (1, 6), (2, 6))
_MAPPED_READER = 2
FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7

READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

# Features whose tables can be kept in the catalog although we do not read their rows.
IMPORTABLE = READABLE | {
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
}
_READER_FEATURES = READABLE | {
    "adaptiveMetadata-preview",
    "catalogManaged",
    "catalogOwned-preview",
    "geospatial",
    "geospatial-dev",
    "redirectReaderWriter-preview",
    "timestampNanos",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
}

# Features under which our own commits are right. Those that concern the rows themselves
# (constraints, generated and identity columns) are judged once more where rows are written.
WRITABLE = (READABLE - {"typeWidening-preview"}) | {
    FENCE,
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "domainMetadata",
    "generatedColumns",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
}

# Features that a table may be given by us; the others of those come from Delta's own engines.
SWITCHABLE = WRITABLE - {"rowTracking"}

# New tables get no mapping of columns: their files are written under the columns' own names.
CREATABLE = SWITCHABLE - {"columnMapping"}

OPERATION = "CUTOVER"
_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"


def reader_features(protocol: Protocol) -> frozenset[str]:
    """Return the features a reader must know, legacy versions spelled out."""
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        return frozenset(protocol.reader_features or ())
    return frozenset({"columnMapping"} if protocol.min_reader_version == _MAPPED_READER else ())


def writer_features(protocol: Protocol) -> frozenset[str]:
    """Return the features a writer must know, legacy versions spelled out."""
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return frozenset(protocol.writer_features or ())
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    return frozenset(name for name, (r, w) in _LEGACY.items() if r <= reader and w <= writer)


def require_readable(protocol: Protocol, table: str) -> None:
    """Refuse a table whose rows we might misread.

    Raises:
        UnsupportedFeatureError: names the features.
    """
    _require_reader_version(protocol, table)
    _refuse(reader_features(protocol) - READABLE, table, "read")


def require_importable(protocol: Protocol, table: str) -> None:
    """Refuse a table whose log we might misread.

    Raises:
        UnsupportedFeatureError: names the features.
    """
    _require_reader_version(protocol, table)
    if not 1 <= protocol.min_writer_version <= FEATURES_WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"Table {table} needs writer version {protocol.min_writer_version}; "
            f"deltasql knows them up to {FEATURES_WRITER_VERSION}."
        )
    _refuse(reader_features(protocol) - IMPORTABLE, table, "imported")


def require_writable(protocol: Protocol, table: str) -> None:
    """Refuse a table whose rules our commits might break.

    Raises:
        UnsupportedFeatureError: names the features.
    """
    require_readable(protocol, table)
    if not 1 <= protocol.min_writer_version <= FEATURES_WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"Table {table} needs writer version {protocol.min_writer_version}; "
            f"deltasql writes up to {FEATURES_WRITER_VERSION}."
        )
    _refuse(writer_features(protocol) - WRITABLE, table, "written")


def new_table_protocol(metadata: Metadata) -> Protocol:
    """Return the protocol of a new table: readable everywhere unless its metadata asks for more."""
    features = {"appendOnly", "invariants", "inCommitTimestamp", *required_features(metadata)}
    if read_bool(metadata.configuration, FENCE_PROPERTY):
        features.add(FENCE)
    return with_features(Protocol(min_reader_version=1, min_writer_version=7), features)


def listed_features(protocol: Protocol) -> frozenset[str]:
    """Return all features that a table has, for readers or writers."""
    return reader_features(protocol) | writer_features(protocol)


def require_listed(metadata: Metadata, protocol: Protocol, table: str) -> None:
    """Refuse metadata that uses a feature which the protocol does not list.

    Raises:
        InvalidCommitError: names the feature and what asks for it.
    """
    missing = missing_features(metadata, listed_features(protocol))
    for feature, cause in missing.items():
        raise InvalidCommitError(
            f"Table {table} does not have the feature {feature}, which {cause} needs.",
            hint="Nothing was committed; commit a protocol with the feature too, or use alter.",
            feature=feature,
        )


def with_features(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return the protocol with more features, legacy versions raised as the spec demands."""
    wanted = set(features)
    if wanted <= listed_features(protocol):
        return protocol
    return _listing(protocol, writer_features(protocol) | wanted)


def _listing(protocol: Protocol, writers: frozenset[str]) -> Protocol:
    """Return the protocol with these writer features; readers list those that concern them."""
    readers = reader_features(protocol) | (writers & _READER_FEATURES)
    is_listed = bool(readers - {"columnMapping"}) or (
        protocol.min_reader_version >= FEATURES_READER_VERSION
    )
    reader_version = FEATURES_READER_VERSION if is_listed else (_MAPPED_READER if readers else 1)
    return msgspec.structs.replace(
        protocol,
        min_reader_version=reader_version,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=sorted(readers) if is_listed else None,
        writer_features=sorted(writers | readers),
    )


def without_features(protocol: Protocol, gone: Iterable[str]) -> Protocol:
    """Return the protocol without features, as a legacy one where the rest is exactly that."""
    kept = listed_features(protocol) - set(gone)
    for reader, writer in _LEGACY_PAIRS:
        legacy = Protocol(min_reader_version=reader, min_writer_version=writer)
        if listed_features(legacy) == kept:
            return legacy
    return _listing(protocol, kept)


def without_fence(protocol: Protocol) -> Protocol:
    """Return the protocol without our fence; nothing else changes."""
    if not is_fenced(protocol):
        return protocol
    return _listing(protocol, writer_features(protocol) - {FENCE})


def lost_features(before: Protocol, after: Protocol, metadata: Metadata) -> frozenset[str]:
    """Return what a new protocol no longer asks of clients; files may still need it.

    No file depends on the fence, nor on in-commit timestamps that the metadata has switched off.
    """
    free = {FENCE, "inCommitTimestamp"} - required_features(metadata).keys()
    return listed_features(before) - listed_features(after) - free


def is_fenced(protocol: Protocol) -> bool:
    """Tell whether stock writers refuse the table because deltasql manages it."""
    return FENCE in writer_features(protocol)


def check_protocol(protocol: Protocol) -> str | None:
    """Return what is wrong with a protocol action by the letter of the spec, or None."""
    for version, features, limit, name in (
        (protocol.min_reader_version, protocol.reader_features, FEATURES_READER_VERSION, "reader"),
        (protocol.min_writer_version, protocol.writer_features, FEATURES_WRITER_VERSION, "writer"),
    ):
        if (version == limit) != (features is not None):
            return f"{name}Features must be given exactly when min{name.title()}Version is {limit}"
    if protocol.min_reader_version == FEATURES_READER_VERSION and protocol.min_writer_version < (
        FEATURES_WRITER_VERSION
    ):
        return "a table with reader features needs writer version 7"
    missing = set(protocol.reader_features or ()) - set(protocol.writer_features or ())
    if missing:
        return f"missing from writerFeatures: {', '.join(sorted(missing))}"
    return None


def check_new_protocol(protocol: Protocol) -> str | None:
    """Return what is wrong with a protocol that we write ourselves, or None.

    Readers refuse a feature of theirs that only writers are told of; logs of others have such.
    """
    untold = (writer_features(protocol) & _READER_FEATURES) - reader_features(protocol)
    if untold:
        return f"missing from readerFeatures: {', '.join(sorted(untold))}"
    return check_protocol(protocol)


def _require_reader_version(protocol: Protocol, table: str) -> None:
    if not 1 <= protocol.min_reader_version <= FEATURES_READER_VERSION:
        raise UnsupportedFeatureError(
            f"Table {table} needs reader version {protocol.min_reader_version}; "
            f"deltasql reads up to {FEATURES_READER_VERSION}."
        )


def _refuse(features: frozenset[str], table: str, verb: str) -> None:
    if features:
        names = ", ".join(sorted(features))
        raise UnsupportedFeatureError(
            f"Table {table} cannot be {verb} by deltasql because of: {names}.",
            features=tuple(sorted(features)),
        )


def require_claimable(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Refuse a table whose rules, spelled out as features, our commits might break.

    Raises:
        UnsupportedFeatureError: names the features.
    """
    asked = required_features(metadata, listed_features(protocol))
    require_writable(with_features(protocol, asked), table)
    if "columnMapping" in asked and "columnMapping" not in reader_features(protocol):
        reader, writer = protocol.min_reader_version, protocol.min_writer_version
        raise UnsupportedFeatureError(
            f"The metadata of {table} maps columns, its protocol ({reader}, {writer}) does not: "
            "readers disagree about its columns.",
            hint="Nothing was claimed. Set delta.columnMapping.mode once more with Delta Spark, "
            "which raises the protocol, or unset it.",
            features=("columnMapping",),
        )


def claim_actions(
    protocol: Protocol, metadata: Metadata, info: CommitInfo, version: int, *, fence: bool
) -> tuple[Action, ...]:
    """Return the claim's actions: commits carry their time from now on, and the fence is up.

    A legacy protocol becomes lists of features: those that it stands for, and those that the
    metadata uses. `info` has the timestamp; it must be later than the time of every commit before.
    """
    configuration = dict(metadata.configuration)
    if not read_bool(configuration, _ENABLED):
        configuration[_ENABLED] = "true"
        configuration[_SINCE_VERSION] = str(version)
        configuration[_SINCE_TIME] = str(info.timestamp)
    if not fence:
        configuration[FENCE_PROPERTY] = "false"
    claimed = msgspec.structs.replace(metadata, configuration=configuration)
    asked = set(required_features(claimed, listed_features(protocol)))
    if read_bool(configuration, FENCE_PROPERTY):
        asked.add(FENCE)
    after = with_features(protocol, asked)
    actions: list[Action] = [msgspec.structs.replace(info, in_commit_timestamp=info.timestamp)]
    if after != protocol:
        actions.append(after)
    # also where nothing changes: whoever knows the table's rules from before reads them again
    actions.append(claimed)
    return tuple(actions)


def has_own_timestamps(metadata: Metadata, cut_over_at: int | None) -> bool:
    """Tell whether deltasql has switched in-commit timestamps on: at a table's creation, for which
    `cut_over_at` is None, or by the claim of that version.
    """
    if not read_bool(metadata.configuration, _ENABLED):
        return False
    since = metadata.configuration.get(_SINCE_VERSION)
    return cut_over_at is None or since == str(cut_over_at)


def release_actions(
    protocol: Protocol, metadata: Metadata, *, keep_timestamps: bool
) -> tuple[Action, ...]:
    """Return the actions that give a table back: without the fence and our timestamps."""
    gone, after = {FENCE}, metadata
    if not keep_timestamps:
        gone.add("inCommitTimestamp")
        ours = {_ENABLED, _SINCE_VERSION, _SINCE_TIME}
        kept = {k: v for k, v in metadata.configuration.items() if k not in ours}
        after = msgspec.structs.replace(metadata, configuration=kept)
    lowered = without_features(protocol, gone)
    return tuple(
        action for action, before in ((lowered, protocol), (after, metadata)) if action != before
    )
