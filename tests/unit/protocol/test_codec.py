"""The canonical form, rule by rule."""

import hashlib
import json

import pytest

from commits import COMMITS, add, info, metadata, remove, vector
from deltasql.errors import InvalidCommitError, MalformedActionError
from deltasql.protocol.actions import (
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    UnknownAction,
)
from deltasql.protocol.codec import (
    decode_commit,
    digest,
    dump_values,
    from_json_object,
    operation_strings,
    serialize_actions,
    to_json_object,
)

ADD = b'{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{},"path":"f","size":1}}\n'


def line(action) -> str:
    return serialize_actions([action]).decode()


@pytest.mark.req("R2")
def test_every_action_is_one_line_ended_by_a_newline():
    payload = serialize_actions([add("b"), add("a"), info()])
    assert payload.endswith(b"}\n")
    assert [len(json.loads(one)) for one in payload.splitlines()] == [1, 1, 1]


def test_no_actions_are_no_bytes():
    assert serialize_actions([]) == b""
    assert decode_commit(b"", version=0) == []


@pytest.mark.req("R3")
def test_kinds_come_in_their_order_and_each_is_sorted():
    cdc = Cdc(path="c", partition_values={}, size=1, data_change=False)
    domains = [DomainMetadata(domain=name, configuration="", removed=False) for name in "zA"]
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    txns = [Txn(app_id=name, version=1) for name in ("é", "z")]
    vectors = [remove("f", deletion_vector=vector(n)) for n in (2, 1)] + [remove("f")]
    unknown = UnknownAction(kind="aaa", body={})
    given = [unknown, cdc, *vectors, add("é"), add("z"), *txns, *domains, metadata(), protocol]
    found = decode_commit(serialize_actions([*given, info()]), version=0)
    assert [action.kind for action in found] == [
        "commitInfo",
        "protocol",
        "metaData",
        *["domainMetadata"] * 2,
        *["txn"] * 2,
        *["add"] * 2,
        *["remove"] * 3,
        "cdc",
        "aaa",
    ]
    assert [action.domain for action in found[3:5]] == ["A", "z"]
    assert [action.app_id for action in found[5:7]] == ["z", "é"]
    assert [action.path for action in found[7:9]] == ["z", "é"]
    assert [action.dv_id[-2:] for action in found[9:12]] == ["", "@1", "@2"]


def test_actions_of_one_name_sort_by_their_line():
    for pair in (
        [add("f", size=1), add("f", size=2)],
        [DomainMetadata(domain="d", configuration=text, removed=False) for text in "ab"],
        [Txn(app_id="a", version=number) for number in (1, 2)],
    ):
        assert serialize_actions(pair) == serialize_actions(pair[::-1])


def test_texts_sort_by_their_bytes_not_by_utf16():
    # U+E000 is below U+1F600 in UTF-8, above its first half in UTF-16
    payload = serialize_actions([add("\U0001f600"), add("\ue000")])
    assert payload.index("\ue000".encode()) < payload.index("\U0001f600".encode())
    values = '{"\ue000":"1","\U0001f600":"2"}'
    assert dump_values({"\U0001f600": "2", "\ue000": "1"}) == values


@pytest.mark.req("R21")
def test_keys_are_sorted_at_every_depth():
    action = info(operation_parameters={"b": {"z": 1, "a": 2}, "a": [{"y": 1, "x": 2}]})

    def check(value):
        if isinstance(value, dict):
            assert list(value) == sorted(value)
        for one in value.values() if isinstance(value, dict) else value:
            if isinstance(one, dict | list):
                check(one)

    check(json.loads(line(action)))
    check(json.loads(line(add("f", tags={"b": "1", "a": None}, extra={"aa": {"b": 1, "a": 2}}))))


def test_feature_lists_are_sorted_and_unique():
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["b", "a", "b"],
        writer_features=["c", "a", "b", "a"],
    )
    assert line(protocol) == (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["a","b"],"writerFeatures":["a","b","c"]}}\n'
    )


def test_an_empty_feature_list_is_written_and_an_absent_one_is_not():
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=[])
    assert line(protocol) == (
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[]}}\n'
    )


@pytest.mark.req("R23")
def test_absent_fields_are_omitted_and_required_empties_are_written():
    assert line(Add(path="f", partition_values={}, size=1, modification_time=1, data_change=True))
    found = json.loads(line(metadata(configuration={}, partition_columns=[], created_time=None)))
    assert found["metaData"] == {
        "configuration": {},
        "format": {"options": {}, "provider": "parquet"},
        "id": metadata().id,
        "partitionColumns": [],
        "schemaString": metadata().schema_string,
    }


def test_null_partition_values_are_kept_everywhere():
    nothing = {"partition_values": {"day": None}}
    cdc = Cdc(path="f", size=1, data_change=False, **nothing)
    for action in (add("f", **nothing), remove("f", **nothing), cdc):
        assert '"partitionValues":{"day":null}' in line(action)


@pytest.mark.req("R22")
def test_times_are_whole_milliseconds():
    assert '"timestamp":1767225600000,' in line(info())
    assert '"deletionTimestamp":1767225600000,' in line(remove("f"))


def test_stats_and_schema_are_kept_to_the_letter():
    odd = '{ "numRecords" : 1,  "z":1, "a":2 }'
    assert decode_commit(serialize_actions([add("f", stats=odd)]), version=0)[0].stats == odd
    text = line(metadata(schema_string=odd))
    assert json.loads(text)["metaData"]["schemaString"] == odd


def test_text_is_raw_utf8_with_lowercase_escapes_for_control_characters():
    text = line(add('é日😀/<&>\x7f\u2028"\\\b\t\n\f\r\x1f'))
    assert '"path":"é日😀/<&>\x7f\u2028\\"\\\\\\b\\t\\n\\f\\r\\u001f"' in text


def test_the_digest_is_sha256_of_the_bytes():
    assert digest(ADD) == hashlib.sha256(ADD).hexdigest()


@pytest.mark.parametrize("actions", COMMITS.values(), ids=COMMITS)
def test_order_of_the_actions_does_not_matter(actions):
    wanted = serialize_actions(actions)
    assert serialize_actions(actions[::-1]) == wanted
    assert serialize_actions(decode_commit(wanted, version=0)) == wanted


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), [float("-inf")], "\ud800", object(), {"k": {1: object()}}]
)
def test_what_json_cannot_carry_is_refused(value):
    for action in (
        CommitInfo(operation=value),
        add("f", extra={"unknown": value}),
        UnknownAction(kind="x", body=value),
    ):
        with pytest.raises(InvalidCommitError, match="cannot be written as JSON"):
            serialize_actions([action])
    with pytest.raises(MalformedActionError):
        from_json_object({"commitInfo": {"operation": value}})


@pytest.mark.parametrize("path", ["\ud800", None, 5])
def test_an_add_that_is_none_is_refused_not_a_crash(path):
    with pytest.raises(InvalidCommitError):
        serialize_actions([add("f"), add(path)])


def test_operation_values_become_texts():
    assert operation_strings(None) == {}
    assert operation_strings(
        {"a": "as it is", "b": 1, "c": True, "d": ["é", {"z": 1, "y": 2}]}
    ) == {
        "a": "as it is",
        "b": "1",
        "c": "true",
        "d": '["é",{"y":2,"z":1}]',
    }


def test_plain_objects_and_actions_are_the_same():
    for actions in COMMITS.values():
        for action in actions:
            again = from_json_object(to_json_object(action))
            assert serialize_actions([again]) == serialize_actions([action])
    assert isinstance(from_json_object(to_json_object(metadata())), Metadata)
