"""Hypothesis strategies for actions: everything the protocol allows, and unknown fields besides."""

from __future__ import annotations

from hypothesis import strategies as st

from deltasql.protocol.actions import (
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
    UnknownAction,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**63 - 1)
EPOCH_MILLIS = st.integers(-62_135_596_800_000, 2**63 // 1000)
VALUES = st.dictionaries(NAMES, st.none() | TEXT, max_size=3)
STRINGS = st.dictionaries(NAMES, TEXT, max_size=3)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# what a newer writer may put anywhere
FREE = st.recursive(
    st.booleans() | st.integers(-(2**80), 2**80) | FINITE | TEXT,
    lambda inner: (
        st.lists(st.none() | inner, max_size=3)
        | st.dictionaries(NAMES, st.none() | inner, max_size=3)
    ),
    max_leaves=6,
)
EXTRA = st.none() | st.dictionaries(
    NAMES.map(lambda name: f"x-{name}"), FREE, min_size=1, max_size=2
)


def maybe(strategy):
    return st.none() | strategy


VECTORS = st.builds(
    DeletionVector,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=NAMES,
    offset=maybe(SIZES),
    size_in_bytes=SIZES,
    cardinality=SIZES,
    extra=EXTRA,
)
ADDS = st.builds(
    Add,
    path=NAMES,
    partition_values=VALUES,
    size=SIZES,
    modification_time=LONGS,
    data_change=st.booleans(),
    stats=maybe(TEXT),
    tags=maybe(VALUES),
    deletion_vector=maybe(VECTORS),
    base_row_id=maybe(LONGS),
    default_row_commit_version=maybe(LONGS),
    clustering_provider=maybe(TEXT),
    extra=EXTRA,
)
REMOVES = st.builds(
    Remove,
    path=NAMES,
    data_change=st.booleans(),
    deletion_timestamp=maybe(LONGS),
    extended_file_metadata=maybe(st.booleans()),
    partition_values=maybe(VALUES),
    size=maybe(SIZES),
    stats=maybe(TEXT),
    tags=maybe(VALUES),
    deletion_vector=maybe(VECTORS),
    base_row_id=maybe(LONGS),
    default_row_commit_version=maybe(LONGS),
    extra=EXTRA,
)
CDCS = st.builds(
    Cdc,
    path=NAMES,
    partition_values=VALUES,
    size=SIZES,
    data_change=st.just(False),
    tags=maybe(VALUES),
    extra=EXTRA,
)
METADATA = st.builds(
    Metadata,
    id=NAMES,
    name=maybe(TEXT),
    description=maybe(TEXT),
    format=st.builds(Format, options=STRINGS, extra=EXTRA),
    schema_string=TEXT,
    partition_columns=st.lists(NAMES, max_size=3),
    configuration=STRINGS,
    created_time=maybe(LONGS),
    extra=EXTRA,
)
FEATURES = maybe(st.lists(NAMES, max_size=4, unique=True).map(sorted))
PROTOCOLS = st.builds(
    Protocol,
    min_reader_version=st.integers(1, 2**31),
    min_writer_version=st.integers(1, 2**31),
    reader_features=FEATURES,
    writer_features=FEATURES,
    extra=EXTRA,
)
TXNS = st.builds(Txn, app_id=NAMES, version=LONGS, last_updated=maybe(LONGS), extra=EXTRA)
DOMAINS = st.builds(
    DomainMetadata, domain=NAMES, configuration=TEXT, removed=st.booleans(), extra=EXTRA
)
INFOS = st.builds(
    CommitInfo,
    timestamp=maybe(LONGS),
    in_commit_timestamp=maybe(EPOCH_MILLIS),
    operation=maybe(TEXT),
    operation_parameters=maybe(st.dictionaries(NAMES, FREE, max_size=3)),
    operation_metrics=maybe(STRINGS),
    read_version=maybe(LONGS),
    is_blind_append=maybe(st.booleans()),
    isolation_level=maybe(TEXT),
    engine_info=maybe(TEXT),
    txn_id=maybe(TEXT),
    user_metadata=maybe(TEXT),
    user_name=maybe(TEXT),
    job=maybe(FREE),
    tags=maybe(FREE),
    extra=EXTRA,
)
CHECKPOINT_ACTIONS = st.builds(
    CheckpointMetadata, version=LONGS, tags=maybe(VALUES), extra=EXTRA
) | st.builds(
    Sidecar,
    path=NAMES,
    size_in_bytes=SIZES,
    modification_time=LONGS,
    tags=maybe(VALUES),
    extra=EXTRA,
)
UNKNOWN = st.builds(UnknownAction, kind=NAMES.map(lambda name: f"x-{name}"), body=FREE)
ACTIONS = (
    ADDS
    | REMOVES
    | CDCS
    | METADATA
    | PROTOCOLS
    | TXNS
    | DOMAINS
    | INFOS
    | CHECKPOINT_ACTIONS
    | UNKNOWN
)
