"""The decoder: what it keeps, what it takes, and how it says where it stopped."""

import json

import pytest

from commits import add, metadata, remove
from deltasql.errors import MalformedActionError
from deltasql.protocol.actions import (
    Cdc,
    CheckpointMetadata,
    DomainMetadata,
    Protocol,
    Sidecar,
    Txn,
    UnknownAction,
)
from deltasql.protocol.codec import (
    decode_commit,
    from_json_object,
    serialize_actions,
    to_json_object,
)

ADD = b'{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{},"path":"f","size":1}}\n'


def refused(payload: bytes, *, lenient: bool = False, version: int | None = 7) -> str:
    with pytest.raises(MalformedActionError) as error:
        decode_commit(payload, version=version, lenient=lenient)
    return str(error.value)


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
    text = to_json_object(metadata())
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
    assert "version 12, line 3 (from byte 91): `add`" in refused(payload, version=12)
    assert refused(payload, version=None).startswith(
        "The commit is not valid at line 3 (from byte 91): "
    )
    with pytest.raises(MalformedActionError) as error:
        decode_commit(payload, version=12)
    assert error.value.context == {"version": 12, "line": 3, "offset": 91}
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
