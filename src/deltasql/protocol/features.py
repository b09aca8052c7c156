"""Table features: what a table asks of clients, what we know, what we refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.actions import Metadata, Protocol
from deltasql.protocol.properties import FENCE_PROPERTY, read, read_bool

FENCE = "deltasqlManaged"

# The features that a legacy writer version stands for.
_LEGACY_WRITER: Mapping[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_LEGACY_READER: Mapping[int, tuple[str, ...]] = {2: ("columnMapping",)}
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
# Features whose tables can be kept in the book although we do not read their rows.
IMPORTABLE = READABLE | {
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
}
_READER_FEATURES = READABLE | {
    "catalogManaged",
    "catalogOwned-preview",
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


def reader_features(protocol: Protocol) -> frozenset[str]:
    """Return the features a reader must know, legacy versions spelled out."""
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        return frozenset(protocol.reader_features or ())
    return _legacy(_LEGACY_READER, protocol.min_reader_version)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """Return the features a writer must know, legacy versions spelled out."""
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return frozenset(protocol.writer_features or ())
    return _legacy(_LEGACY_WRITER, protocol.min_writer_version)


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


def new_table_protocol(metadata: Metadata, needed: Iterable[str] = ()) -> Protocol:
    """Return the protocol of a new table: readable everywhere unless the schema asks for more."""
    features = {"appendOnly", "invariants", "inCommitTimestamp", *needed}
    features |= enabled_by(metadata.configuration)
    if read_bool(metadata.configuration, FENCE_PROPERTY):
        features.add(FENCE)
    return with_features(Protocol(min_reader_version=1, min_writer_version=7), features)


def enabled_by(configuration: Mapping[str, str]) -> set[str]:
    """Return the features that the properties of a table switch on."""
    switches = {
        "delta.enableChangeDataFeed": "changeDataFeed",
        "delta.enableDeletionVectors": "deletionVectors",
        "delta.enableInCommitTimestamps": "inCommitTimestamp",
        "delta.enableRowTracking": "rowTracking",
    }
    features = {name for key, name in switches.items() if read_bool(configuration, key)}
    if any(key.startswith("delta.constraints.") for key in configuration):
        features.add("checkConstraints")
    if read(configuration, "delta.columnMapping.mode") != "none":
        features.add("columnMapping")
    prefix = "delta.feature."
    features |= {key.removeprefix(prefix) for key in configuration if key.startswith(prefix)}
    return features


def with_features(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return the protocol with more features, legacy versions raised as the spec demands."""
    wanted = set(features)
    if wanted <= writer_features(protocol) | reader_features(protocol):
        return protocol
    writers = writer_features(protocol) | wanted
    readers = reader_features(protocol) | (wanted & _READER_FEATURES)
    needs_reader_list = bool(readers - _legacy(_LEGACY_READER, 2)) or (
        protocol.min_reader_version >= FEATURES_READER_VERSION
    )
    reader_version = FEATURES_READER_VERSION if needs_reader_list else (2 if readers else 1)
    return msgspec.structs.replace(
        protocol,
        min_reader_version=reader_version,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=sorted(readers) if needs_reader_list else None,
        writer_features=sorted(writers),
    )


def without_fence(protocol: Protocol) -> Protocol:
    """Return the protocol without our fence; nothing else changes."""
    if not is_fenced(protocol):
        return protocol
    features = [name for name in protocol.writer_features or () if name != FENCE]
    return msgspec.structs.replace(protocol, writer_features=features)


def lost_features(before: Protocol, after: Protocol) -> frozenset[str]:
    """Return what a new protocol no longer asks of clients; files may still need it.

    The fence is no such feature: no file depends on it.
    """
    asked = reader_features(before) | writer_features(before)
    return asked - reader_features(after) - writer_features(after) - {FENCE}


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
        return f"reader features missing from writerFeatures: {', '.join(sorted(missing))}"
    return None


def _require_reader_version(protocol: Protocol, table: str) -> None:
    if not 1 <= protocol.min_reader_version <= FEATURES_READER_VERSION:
        raise UnsupportedFeatureError(
            f"Table {table} needs reader version {protocol.min_reader_version}; "
            f"deltasql reads up to {FEATURES_READER_VERSION}."
        )


def _legacy(table: Mapping[int, tuple[str, ...]], version: int) -> frozenset[str]:
    return frozenset(name for at, names in table.items() if at <= version for name in names)


def _refuse(features: frozenset[str], table: str, verb: str) -> None:
    if features:
        names = ", ".join(sorted(features))
        raise UnsupportedFeatureError(
            f"Table {table} cannot be {verb} by deltasql because of: {names}.",
            features=tuple(sorted(features)),
        )
