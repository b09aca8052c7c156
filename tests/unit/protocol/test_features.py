"""Table features: legacy versions spelled out, protocols raised, the fence up and down."""

import json

import pytest

from commits import metadata
from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.actions import Protocol
from deltasql.protocol.features import (
    FENCE,
    READABLE,
    WRITABLE,
    check_new_protocol,
    check_protocol,
    is_fenced,
    lost_features,
    new_table_protocol,
    reader_features,
    require_readable,
    require_writable,
    with_features,
    without_fence,
    writer_features,
)
from deltasql.protocol.properties import missing_features, required_features
from foreign_tables import a_field

VARIANT = {"variantType"}


def protocol(reader: int, writer: int, readers=None, writers=None) -> Protocol:
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=readers,
        writer_features=writers,
    )


def shape(found: Protocol) -> tuple[object, ...]:
    return (
        found.min_reader_version,
        found.min_writer_version,
        found.reader_features,
        found.writer_features,
    )


LEGACY = {
    1: set(),
    2: {"appendOnly", "invariants"},
    3: {"checkConstraints"},
    4: {"changeDataFeed", "generatedColumns"},
    5: set(),
    6: {"identityColumns"},
}


@pytest.mark.parametrize("version", LEGACY)
def test_a_legacy_writer_version_stands_for_all_features_up_to_it(version):
    expected = {name for at, names in LEGACY.items() if at <= version for name in names}
    assert writer_features(protocol(1, version)) == expected
    assert reader_features(protocol(1, version)) == set()


def test_reader_version_two_is_column_mapping_for_writers_from_five_on():
    assert reader_features(protocol(2, 5)) == {"columnMapping"}
    assert "columnMapping" in writer_features(protocol(2, 5))
    assert "columnMapping" not in writer_features(protocol(1, 6))


def test_lists_count_only_where_the_version_says_so():
    assert reader_features(protocol(3, 7, ["a"], ["a", "b"])) == {"a"}
    assert writer_features(protocol(3, 7, ["a"], ["a", "b"])) == {"a", "b"}
    assert writer_features(protocol(1, 7, None, None)) == set()


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ((1, 2), {"appendOnly"}, (1, 2, None, None)),
        ((1, 2), set(), (1, 2, None, None)),
        ((1, 2), {"domainMetadata"}, (1, 7, None, ["appendOnly", "domainMetadata", "invariants"])),
        (
            (1, 4),
            {FENCE},
            (
                1,
                7,
                None,
                [
                    "appendOnly",
                    "changeDataFeed",
                    "checkConstraints",
                    FENCE,
                    "generatedColumns",
                    "invariants",
                ],
            ),
        ),
        ((1, 1), {"columnMapping"}, (2, 7, None, ["columnMapping"])),
        (
            (1, 2),
            {"timestampNtz"},
            (3, 7, ["timestampNtz"], ["appendOnly", "invariants", "timestampNtz"]),
        ),
        ((1, 7, None, []), {"deletionVectors"}, (3, 7, ["deletionVectors"], ["deletionVectors"])),
        ((3, 7, [], []), {"rowTracking"}, (3, 7, [], ["rowTracking"])),
        ((3, 7, ["a"], ["a"]), {"b"}, (3, 7, ["a"], ["a", "b"])),
    ],
)
def test_a_protocol_is_raised_no_further_than_its_features_ask(before, wanted, after):
    found = with_features(protocol(*before), wanted)
    assert shape(found) == after
    assert check_protocol(found) is None


def test_mapped_legacy_tables_list_the_mapping_for_readers_too():
    found = with_features(protocol(2, 5), {"deletionVectors"})
    assert found.reader_features == ["columnMapping", "deletionVectors"]
    assert set(writer_features(protocol(2, 5))) < set(found.writer_features)
    assert check_protocol(found) is None


def test_raising_twice_is_raising_once():
    once = with_features(protocol(1, 2), {"timestampNtz", FENCE})
    assert with_features(once, {"timestampNtz", FENCE}) == once


def test_new_tables_are_fenced_and_readable_everywhere():
    found = new_table_protocol(metadata())
    assert shape(found) == (1, 7, None, ["appendOnly", FENCE, "inCommitTimestamp", "invariants"])
    assert is_fenced(found)
    require_writable(found, "t")


@pytest.mark.parametrize("value", ["false", "FALSE", " False "])
def test_the_fence_can_be_left_out(value):
    found = new_table_protocol(metadata(configuration={"deltasql.fence": value}))
    assert not is_fenced(found)


def test_the_fence_comes_down_and_nothing_else_changes():
    fenced = new_table_protocol(metadata())
    open_ = without_fence(fenced)
    assert not is_fenced(open_)
    assert shape(open_)[:3] == shape(fenced)[:3]
    assert set(fenced.writer_features) - set(open_.writer_features) == {FENCE}
    assert with_features(open_, {FENCE}) == fenced


@pytest.mark.parametrize("plain", [protocol(1, 2), protocol(1, 7, None, ["appendOnly"])])
def test_taking_down_a_fence_that_is_not_there_changes_nothing(plain):
    assert without_fence(plain) == plain
    assert check_protocol(without_fence(plain)) is None


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ((1, 2), (1, 2), set()),
        ((1, 2), (1, 7, None, ["appendOnly", "invariants", "clustering"]), set()),
        ((2, 5), (1, 4), {"columnMapping"}),
        ((3, 7, ["deletionVectors"], ["deletionVectors"]), (1, 2), {"deletionVectors"}),
        ((1, 7, None, ["appendOnly", FENCE]), (1, 7, None, ["appendOnly"]), set()),
        ((1, 7, None, ["clustering"]), (1, 7, None, []), {"clustering"}),
        ((1, 7, None, ["inCommitTimestamp"]), (1, 7, None, []), {"inCommitTimestamp"}),
    ],
)
def test_features_that_a_new_protocol_loses_are_told(before, after, lost):
    assert lost_features(protocol(*before), protocol(*after), metadata()) == lost


def a_schema(*fields: dict) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


@pytest.mark.parametrize(
    ("configuration", "features"),
    [
        ({}, set()),
        ({"delta.appendOnly": "true"}, {"appendOnly"}),
        ({"delta.enableDeletionVectors": "TRUE"}, {"deletionVectors"}),
        ({"delta.enableDeletionVectors": "false"}, set()),
        ({"delta.enableRowTracking": "true"}, {"rowTracking", "domainMetadata"}),
        ({"delta.constraints.positive": "id > 0"}, {"checkConstraints"}),
        ({"delta.columnMapping.mode": "name"}, {"columnMapping"}),
        ({"delta.columnMapping.mode": "none"}, set()),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
        ({"delta.checkpointPolicy": "classic"}, set()),
        ({"delta.enableTypeWidening": "true"}, {"typeWidening"}),
        ({"delta.enableIcebergCompatV2": "true"}, {"icebergCompatV2", "columnMapping"}),
        (
            {"delta.coordinatedCommits.commitCoordinator-preview": "x"},
            {"coordinatedCommits-preview"},
        ),
        ({"delta.feature.clustering": "supported"}, {"clustering", "domainMetadata"}),
    ],
)
def test_properties_ask_for_features(configuration, features):
    assert required_features(metadata(configuration=configuration)).keys() == features


@pytest.mark.parametrize(
    ("field", "features"),
    [
        (a_field("a", "timestamp_ntz"), {"timestampNtz"}),
        (a_field("a", {"type": "array", "elementType": "variant", "containsNull": True}), VARIANT),
        (a_field("a", {"type": "struct", "fields": [a_field("b", "variant")]}), VARIANT),
        (a_field("a", "string", delta__generationExpression="b"), {"generatedColumns"}),
        (a_field("a", delta__identity__start=1), {"identityColumns"}),
        (a_field("a", delta__invariants="{}"), {"invariants"}),
        (a_field("a", nullable=False), {"invariants"}),
        (a_field("a", CURRENT_DEFAULT="1"), {"allowColumnDefaults"}),
        (a_field("a", delta__typeChanges=[]), {"typeWidening"}),
        (a_field("timestamp_ntz", "string", comment="timestamp_ntz"), set()),
    ],
)
def test_columns_ask_for_features(field, features):
    found = metadata(schema_string=a_schema(field), configuration={})
    assert required_features(found).keys() == features


def test_a_feature_under_its_earlier_name_is_enough():
    found = metadata(configuration={"delta.enableTypeWidening": "true"})
    assert missing_features(found, frozenset({"typeWidening-preview"})) == {}
    assert missing_features(found, frozenset()).keys() == {"typeWidening"}


@pytest.mark.parametrize("feature", sorted(READABLE))
def test_what_we_read_is_let_through(feature):
    require_readable(protocol(3, 7, [feature], [feature]), "t")


@pytest.mark.parametrize("feature", sorted(WRITABLE - READABLE))
def test_writer_features_do_not_stop_a_reader(feature):
    found = protocol(1, 7, None, [feature])
    require_readable(found, "t")
    require_writable(found, "t")


@pytest.mark.parametrize(
    "feature", ["variantType", "catalogManaged", "adaptiveMetadata-preview", "never heard of"]
)
def test_reader_features_that_we_lack_are_refused_by_name(feature):
    with pytest.raises(UnsupportedFeatureError, match=feature) as error:
        require_readable(protocol(3, 7, [feature], [feature]), "orders")
    assert "orders" in str(error.value)
    assert error.value.context["features"] == (feature,)


@pytest.mark.parametrize(
    "feature",
    [
        "materializePartitionColumns",
        "icebergCompatV1",
        "checkpointProtection",
        "collations",
        "never heard of",
    ],
)
def test_writer_features_that_we_lack_are_refused_for_writing_only(feature):
    found = protocol(1, 7, None, [feature])
    require_readable(found, "t")
    with pytest.raises(UnsupportedFeatureError, match=feature):
        require_writable(found, "t")


@pytest.mark.parametrize("versions", [(4, 7), (0, 2), (99, 99), (-1, 1)])
def test_reader_versions_of_other_worlds_are_refused(versions):
    with pytest.raises(UnsupportedFeatureError, match="reader version"):
        require_readable(protocol(*versions), "t")


@pytest.mark.parametrize("versions", [(1, 8), (1, 0)])
def test_writer_versions_of_other_worlds_are_refused(versions):
    with pytest.raises(UnsupportedFeatureError, match="writer version"):
        require_writable(protocol(*versions), "t")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((1, 2, None, ["appendOnly"]), "writerFeatures"),
        ((1, 2, [], None), "readerFeatures"),
        ((3, 7, None, ["a"]), "readerFeatures"),
        ((1, 7), "writerFeatures"),
        ((3, 6, [], None), "writer version 7"),
        ((3, 7, ["deletionVectors", "b"], ["b"]), "writerFeatures: deletionVectors"),
    ],
)
def test_a_protocol_against_the_letter_is_explained(given, what):
    assert what in check_protocol(protocol(*given))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((1, 7, None, ["columnMapping"]), "readerFeatures: columnMapping"),
        ((2, 7, None, ["columnMapping", "timestampNtz"]), "readerFeatures: timestampNtz"),
        ((3, 7, [], ["v2Checkpoint"]), "readerFeatures: v2Checkpoint"),
        ((1, 7), "writerFeatures"),
    ],
)
def test_our_own_protocols_tell_readers_of_every_feature_that_concerns_them(given, what):
    assert what in check_new_protocol(protocol(*given))


@pytest.mark.parametrize(
    "given", [(1, 1), (1, 2), (2, 5), (1, 7, None, []), (2, 7, None, ["columnMapping"])]
)
def test_a_protocol_by_the_letter_is_right(given):
    assert check_protocol(protocol(*given)) is None
