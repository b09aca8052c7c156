"""The canonical form, rule by rule, and a decoder that says where it stopped."""

import hashlib
import json

import pytest

from commits import COMMITS, add, info, metadata, remove, vector
from deltasql.errors import InvalidCommitError, MalformedActionError
from deltasql.protocol.actions import (
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Sidecar,
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


def refused(payload: bytes, *, lenient: bool = False, version: int | None = 7) -> str:
    with pytest.raises(MalformedActionError) as error:
        decode_commit(payload, version=version, lenient=lenient)
    return str(error.value)


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


def test_unknown_fields_and_actions_are_kept():
    payload = (
        b'{"add":{"aNew":{"b":1,"a":[null,{}]},"dataChange":true,"deletionVector":{"cardinality":1,'
        b'"new":[1],"pathOrInlineDv":"x","sizeInBytes":1,"storageType":"u"},"modificationTime":1,'
        b'"partitionValues":{},"path":"f","size":1,"~extra":{"x":1}}}\n'
        b'{"metaData":{"configuration":{},"format":{"new":0,"options":{},"provider":"parquet"},'
        b'"id":"i","partitionColumns":[],"schemaString":""}}\n'
        b'{"teleport":{"b":[1.5,2],"a":"x"}}\n'
    )
    found = decode_commit(payload, version=1)
    assert found[0].extra == {"aNew": {"b": 1, "a": [None, {}]}, "~extra": {"x": 1}}
    assert found[0].deletion_vector.extra == {"new": [1]}
    assert found[1].format.extra == {"new": 0}
    assert found[2] == UnknownAction(kind="teleport", body={"a": "x", "b": [1.5, 2]})
    again = [json.loads(one) for one in serialize_actions(found).splitlines()]
    assert again == [json.loads(payload.splitlines()[n]) for n in (1, 0, 2)]


def test_explicit_nulls_are_absent_fields():
    payload = (
        b'{"add":{"path":"f","partitionValues":{"p":null},"size":1,"modificationTime":1,'
        b'"dataChange":true,"stats":null,"tags":null,"deletionVector":null,"baseRowId":null,'
        b'"clusteringProvider":null,"unknown":null},"remove":null,"teleport":null}\n'
    )
    [found] = decode_commit(payload, version=1)
    assert serialize_actions([found]) == (
        b'{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{"p":null},'
        b'"path":"f","size":1}}\n'
    )


def test_null_name_and_description_of_a_table_are_read():
    text = json.loads(line(metadata()))
    text["metaData"] |= {"name": None, "description": None}
    assert from_json_object(text) == metadata()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"", b"\n\n  \n\t\r\n", b" \n"])
def test_line_ends_and_blank_lines_do_not_matter(ending):
    assert len(decode_commit(b"\n" + ADD.strip() + ending, version=0)) == 1


def test_checkpoint_actions_are_read():
    found = decode_commit(
        b'{"checkpointMetadata":{"version":3}}\n'
        b'{"sidecar":{"path":"s","sizeInBytes":1,"modificationTime":2}}\n',
        version=3,
    )
    assert found == [
        CheckpointMetadata(version=3),
        Sidecar(path="s", size_in_bytes=1, modification_time=2),
    ]


REQUIRED = {
    "add": ["path", "partitionValues", "size", "modificationTime", "dataChange"],
    "remove": ["path", "dataChange"],
    "cdc": ["path", "partitionValues", "size", "dataChange"],
    "metaData": ["id", "format", "schemaString", "partitionColumns"],
    "protocol": ["minReaderVersion", "minWriterVersion"],
    "txn": ["appId", "version"],
    "domainMetadata": ["domain", "configuration", "removed"],
}
WHOLE = {
    "add": add("f"),
    "remove": remove("f"),
    "cdc": Cdc(path="f", partition_values={}, size=1, data_change=False),
    "metaData": metadata(),
    "protocol": Protocol(min_reader_version=1, min_writer_version=2),
    "txn": Txn(app_id="a", version=1),
    "domainMetadata": DomainMetadata(domain="d", configuration="", removed=False),
}


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in REQUIRED.items() for n in names])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_missing_or_null_required_field_is_named(kind, name, lenient):
    envelope = to_json_object(WHOLE[kind])
    assert from_json_object(envelope) == WHOLE[kind]
    del envelope[kind][name]
    if name == "schemaString" and lenient:
        return
    message = refused(json.dumps(envelope).encode(), lenient=lenient)
    assert f"`{kind}`" in message
    assert f"`{name}`" in message
    envelope[kind][name] = None
    assert f"`{kind}`" in refused(json.dumps(envelope).encode(), lenient=lenient)


def test_an_error_names_the_version_and_the_line():
    payload = ADD + b"\n" + ADD.replace(b'"size":1', b'"size":"many"')
    assert "version 12, line 3: `add`" in refused(payload, version=12)
    assert refused(payload, version=None).startswith("The commit is not valid at line 3: ")
    with pytest.raises(MalformedActionError) as error:
        decode_commit(payload, version=12)
    assert error.value.context == {"version": 12, "line": 3}
    assert error.value.__cause__ is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "truncated"),
        (b"[]", "not a JSON object"),
        (b"5", "not a JSON object"),
        (b"{}", "exactly one action, found none"),
        (b'{"add":null}', "exactly one action, found none"),
        (ADD[:-2] + b',"txn":{"appId":"a","version":1}}', "exactly one action, found add, txn"),
        (ADD.strip() + ADD.strip(), "malformed"),
        (b"\xef\xbb\xbf" + ADD, "malformed"),
        (b'{"commitInfo":{"a":"\xff"}}', "not valid UTF-8"),
        (b'{"commitInfo":{"a":"\\ud800"}}', "line 1"),
        (b'{"commitInfo":{"a":"x\x00"}}', "malformed"),
        (b'{"commitInfo":{"a":1e400}}', "out of range"),
        (b'{"commitInfo":{"a":NaN}}', "malformed"),
        (b'{"commitInfo":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested too deeply"),
        (b'{"x":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}", "nested too deeply"),
        (b'{"commitInfo":{"a":' + b"[" * 200 + b"]" * 200 + b"}}", "nested too deeply"),
        (b'{"add":[]}', "Expected `object`"),
        (b'{"txn":{"appId":"a","version":9223372036854775808}}', "<= 9223372036854775807"),
        (b'{"txn":{"appId":"a","version":true}}', "Expected `int`"),
        (ADD.replace(b'"size":1', b'"size":1,"stats":{}'), "Expected `str"),
        (ADD.replace(b'"partitionValues":{}', b'"partitionValues":{"a":1}'), "Expected `str"),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_what_is_no_commit_is_refused_in_words(text, reason, lenient):
    if text in {b"{}", b'{"add":null}'} and lenient:
        assert decode_commit(text, version=7, lenient=True) == []
        return
    message = refused(text, lenient=lenient)
    assert reason in message
    assert "version 7, line 1" in message


def test_lenient_takes_numbers_as_texts_and_whole_floats():
    text = (
        b'{"add":{"path":"f","partitionValues":{"a":"null","b":"1"},"size":"10",'
        b'"modificationTime":1.7e12,"dataChange":"true","deletionVector":{"storageType":"u",'
        b'"pathOrInlineDv":"x","offset":1.0,"sizeInBytes":"4","cardinality":2}}}'
    )
    assert "`add`" in refused(text)
    [found] = decode_commit(text, version=0, lenient=True)
    assert (found.size, found.modification_time, found.data_change) == (10, 1_700_000_000_000, True)
    assert found.partition_values == {"a": "null", "b": "1"}
    assert (found.deletion_vector.offset, found.deletion_vector.size_in_bytes) == (1, 4)


@pytest.mark.parametrize("text", ["", ',"schemaString":null'])
def test_lenient_takes_a_table_that_has_no_schema_yet(text):
    whole = (
        '{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},'
        f'"partitionColumns":[],"configuration":{{}}{text}}}}}'
    ).encode()
    [found] = decode_commit(whole, version=0, lenient=True)
    assert "schemaString" in refused(whole)
    assert found.schema_string == '{"type":"struct","fields":[]}'


@pytest.mark.parametrize("value", ["1.5", '"x"', "[]", "1e300"])
def test_lenient_does_not_guess(value):
    text = ADD.replace(b'"size":1', b'"size":' + value.encode())
    assert "`add`" in refused(text, lenient=True)


def test_a_key_given_twice_counts_as_its_last_value():
    text = ADD.replace(b'"size":1', b'"size":5,"size":1')
    assert decode_commit(text, version=0) == decode_commit(ADD, version=0)


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
