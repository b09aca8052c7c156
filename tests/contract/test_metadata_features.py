"""Metadata never uses a feature that the protocol does not list, whichever way it comes."""

import json

import msgspec
import pytest

from builders import a_table
from deltasql.errors import BadArgumentError, InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Metadata
from deltasql.protocol.features import listed_features, with_features
from deltasql.protocol.properties import required_features
from deltasql.protocol.schema.types import parse_schema
from foreign_tables import a_field

SWITCHED_ON = {
    "delta.appendOnly": "true",
    "delta.checkpointPolicy": "v2",
    "delta.constraints.low": "id > -5",
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
    "delta.feature.domainMetadata": "supported",
}
REFUSED = {
    "delta.coordinatedCommits.commitCoordinator-preview": "dynamodb",
    "delta.enableIcebergCompatV2": "true",
    "delta.enableMaterializePartitionColumnsFeature": "true",
    "delta.enableRowTracking": "true",
    "delta.enableVariantShredding": "true",
    "delta.feature.never-heard-of": "supported",
    "delta.redirectWriterOnly-preview": "{}",
    "delta.requireCheckpointProtectionBeforeVersion": "5",
}
UNKNOWN = ["delta.nobody", "deltasql.paused", "deltasql.historyFloor", "deltasql.fance"]
COLUMNS = {
    "generatedColumns": a_field("g", "long", delta__generationExpression="id + 1"),
    "allowColumnDefaults": a_field("c", "long", CURRENT_DEFAULT="1"),
    "timestampNtz": a_field(
        "n", {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}
    ),
}


def features(table) -> frozenset[str]:
    return listed_features(table.snapshot().protocol)


def asked(table) -> set[str]:
    return set(required_features(table.snapshot().metadata))


def schema_with(*fields: dict) -> str:
    return json.dumps({"type": "struct", "fields": [a_field("id"), *fields]})


@pytest.mark.parametrize("key", SWITCHED_ON)
def test_a_property_brings_its_feature_along_when_a_table_is_made_or_altered(
    catalog, table, tmp_path, key
):
    value = {key: SWITCHED_ON[key]}
    made = a_table(catalog, tmp_path, "made", properties=value)
    before = features(table)
    table.alter(properties=value)
    for each in (made, table):
        assert asked(each) <= features(each)
        assert not any(name.startswith("delta.feature.") for name in config(each))
    if key != "delta.appendOnly":  # every table of ours has it
        assert features(table) > before


def config(table) -> dict[str, str]:
    return table.snapshot().metadata.configuration


@pytest.mark.parametrize("feature", COLUMNS)
def test_a_column_brings_its_feature_along(catalog, table, tmp_path, feature):
    schema = schema_with(COLUMNS[feature])
    made = a_table(catalog, tmp_path, "made", schema=schema, partition_by=[])
    table.alter(add=parse_schema(schema).fields[1:])
    assert feature in features(made)
    assert feature in features(table)


@pytest.mark.parametrize("key", REFUSED)
def test_what_deltasql_cannot_switch_on_is_refused_by_name(catalog, table, tmp_path, key):
    value = {key: REFUSED[key]}
    with pytest.raises(UnsupportedFeatureError):
        a_table(catalog, tmp_path, "made", properties=value)
    with pytest.raises(UnsupportedFeatureError, match=key):
        table.alter(properties=value)
    with pytest.raises((BadArgumentError, InvalidCommitError), match=key):
        table.commit([with_properties(table, value)])
    assert table.version == 0
    assert [info.name for info in catalog.tables()] == ["orders"]


def with_properties(table, value: dict[str, str]) -> Metadata:
    found = table.snapshot().metadata
    return msgspec.structs.replace(found, configuration={**found.configuration, **value})


@pytest.mark.parametrize("name", UNKNOWN)
def test_names_that_nobody_knows_are_refused(catalog, table, tmp_path, name):
    for attempt in (
        lambda: a_table(catalog, tmp_path, "made", properties={name: "true"}),
        lambda: table.alter(properties={name: "true"}),
        lambda: table.commit([with_properties(table, {name: "true"})]),
    ):
        with pytest.raises(BadArgumentError, match=name):
            attempt()
    assert table.version == 0


def test_a_feature_among_the_properties_of_an_action_belongs_into_the_protocol(table):
    with pytest.raises(BadArgumentError, match="belongs into the protocol"):
        table.commit([with_properties(table, {"delta.feature.domainMetadata": "supported"})])


@pytest.mark.parametrize("key", [*SWITCHED_ON][1:-1])
def test_actions_may_use_a_feature_only_with_a_protocol_that_lists_it(table, key):
    metadata = with_properties(table, {key: SWITCHED_ON[key]})
    with pytest.raises(InvalidCommitError, match=key):
        table.commit([metadata])
    protocol = with_features(table.snapshot().protocol, required_features(metadata))
    assert table.commit([metadata, protocol]) == 1
    assert asked(table) <= features(table)


def test_an_unset_property_leaves_its_feature_and_can_come_back(table):
    table.alter(properties={"delta.enableTypeWidening": "true"})
    table.alter(unset=["delta.enableTypeWidening"])
    assert "typeWidening" in features(table)
    table.alter(properties={"delta.enableTypeWidening": "true"})
    assert table.version == 3
