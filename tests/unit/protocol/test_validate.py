"""Which actions may be one commit, and the published schema of its lines."""

import msgspec
import pytest

from commits import COMMITS, add, info, metadata, remove, vector
from deltasql.errors import InvalidCommitError, MalformedActionError, SchemaError
from deltasql.protocol.actions import (
    Cdc,
    CheckpointMetadata,
    DomainMetadata,
    Format,
    Protocol,
    Sidecar,
    Txn,
)
from deltasql.protocol.codec import serialize_actions, to_json_object
from deltasql.protocol.validate import check_commit, commit_schema, validate_payload

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)


def cdc(**changes) -> Cdc:
    values = {"path": "c", "partition_values": {"day": "a"}, "size": 1, "data_change": False}
    return Cdc(**{**values, **changes})


def domain(name: str = "d", text: str = "") -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=text, removed=False)


def with_vector(**changes):
    return add("f", deletion_vector=msgspec.structs.replace(vector(), **changes))


@pytest.mark.parametrize("actions", COMMITS.values(), ids=COMMITS)
def test_representative_commits_may_be_made(actions):
    check_commit(actions, partition_columns=None)
    check_commit(actions, partition_columns=["day"])


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([add("f"), add("f")], "two adds of f"),
        ([add("/f"), add("file:///f")], "two adds"),
        ([remove("f"), remove("f", size=1)], "two removes of f"),
        ([add("f"), remove("f")], "added and removed"),
        ([metadata(), metadata(name="x")], "two actions metaData"),
        ([PROTOCOL, PROTOCOL], "two actions protocol"),
        ([info(), info()], "two actions commitInfo"),
        ([Txn(app_id="a", version=1), Txn(app_id="a", version=2)], "two actions txn a"),
        ([domain(), domain()], "two actions domainMetadata d"),
        ([CheckpointMetadata(version=1)], "checkpoints only"),
        ([Sidecar(path="s", size_in_bytes=1, modification_time=1)], "checkpoints only"),
        ([add("")], "path is empty"),
        ([remove("")], "path is empty"),
        ([cdc(path="")], "path is empty"),
        ([add("a\0b")], "NUL"),
        ([add("f", stats="\0")], "NUL"),
        ([add("f", clustering_provider="\0")], "NUL"),
        ([with_vector(path_or_inline_dv="\0")], "NUL"),
        ([with_vector(path_or_inline_dv="")], "empty"),
        ([with_vector(storage_type="r")], "storage type"),
        ([with_vector(cardinality=-1)], "negative"),
        ([with_vector(offset=-1)], "negative"),
        ([add("f", size=-1)], "negative"),
        ([remove("f", size=-1)], "negative"),
        ([cdc(data_change=True)], "dataChange"),
        ([Txn(app_id="", version=1)], "appId is empty"),
        ([Txn(app_id="\0", version=1)], "NUL"),
        ([domain("")], "domain is empty"),
        ([domain("d", "\0")], "NUL"),
        ([metadata(id="")], "id is empty"),
        ([metadata(name="\0")], "NUL"),
        ([metadata(format=Format(provider="csv"))], "parquet"),
        ([metadata(partition_columns=["nope"])], "partition column nope"),
        ([Protocol(min_reader_version=3, min_writer_version=7)], "readerFeatures"),
        ([info(operation_parameters="x")], "operationParameters"),
        ([info(operation_metrics=[1])], "operationMetrics"),
        ([info(user_metadata={"a": 1})], "userMetadata"),
        ([info(user_name="\0")], "NUL"),
    ],
)
def test_actions_that_contradict_are_refused_in_words(actions, reason):
    with pytest.raises(InvalidCommitError, match=reason):
        check_commit(actions, partition_columns=None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "nonsense",
        metadata().schema_string.replace('"id"', '"DAY"'),
        metadata().schema_string.replace('"id"', '"day"'),
    ],
)
def test_a_schema_that_is_none_is_refused(text):
    with pytest.raises(SchemaError):
        check_commit([metadata(schema_string=text)], partition_columns=None)


def test_columns_of_one_letter_are_compared_too():
    text = metadata().schema_string.replace('"id"', '"a"').replace('"name":"name"', '"name":"a"')
    with pytest.raises(SchemaError, match="same name"):
        check_commit([metadata(schema_string=text)], partition_columns=None)


@pytest.mark.parametrize("values", [{}, {"day": "a", "more": "b"}, {"Day": "a"}])
def test_partition_values_are_exactly_those_of_the_table(values):
    for action in (add("f", partition_values=values), cdc(partition_values=values)):
        check_commit([action], partition_columns=None)
        with pytest.raises(InvalidCommitError, match="partition columns"):
            check_commit([action], partition_columns=["day"])


def test_two_vectors_of_one_path_are_two_files():
    check_commit([with_vector(), remove("f")], partition_columns=["day"])


@pytest.mark.req("R24")
@pytest.mark.parametrize("actions", COMMITS.values(), ids=COMMITS)
def test_canonical_bytes_are_valid_by_the_published_schema(actions):
    validate_payload(serialize_actions(actions), version=0)


@pytest.mark.req("R24")
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("add", "path", None),
        ("add", "path", ""),
        ("add", "partitionValues", {"a": 1}),
        ("add", "size", 1.5),
        ("add", "stats", {}),
        ("metaData", "id", None),
        ("metaData", "schemaString", None),
        ("metaData", "configuration", {"a": None}),
        ("metaData", "partitionColumns", "day"),
        ("txn", "version", 2**63),
        ("cdc", "dataChange", True),
        ("protocol", "minReaderVersion", 0),
        ("domainMetadata", "removed", "no"),
        ("remove", "deletionTimestamp", "now"),
    ],
)
def test_a_field_that_breaks_the_schema_is_named(kind, name, value):
    whole = {
        "add": add("f"),
        "remove": remove("f"),
        "metaData": metadata(),
        "txn": Txn(app_id="a", version=1),
        "cdc": cdc(),
        "protocol": PROTOCOL,
        "domainMetadata": domain(),
    }
    envelope = to_json_object(whole[kind])
    envelope[kind][name] = value
    if value is None:
        del envelope[kind][name]
    message = breaks_the_schema(msgspec.json.encode(envelope))
    assert kind in message
    assert name in message


@pytest.mark.parametrize(
    "text", [b'{"txn":{"appId":"a","version":1},"x":{}}', b"{}", b"[]", b"{", b'"\xff"', b" "]
)
def test_a_line_that_is_none_is_named(text):
    breaks_the_schema(text)


def breaks_the_schema(text: bytes) -> str:
    with pytest.raises(MalformedActionError) as error:
        validate_payload(serialize_actions([info()]) + text, version=5)
    assert "version 5, line 2" in str(error.value)
    assert error.value.context == {"version": 5, "line": 2}
    return str(error.value)


def test_the_schema_requires_what_readers_cannot_do_without():
    defs = commit_schema()["$defs"]
    assert set(defs["add"]["required"]) == {
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "dataChange",
    }
    assert set(defs["metaData"]["required"]) == {
        "id",
        "format",
        "schemaString",
        "partitionColumns",
        "configuration",
    }
