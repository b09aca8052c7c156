"""The rules that a log gives itself, from commits and from every kind of checkpoint."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commits import add, info, metadata
from deltasql.errors import MalformedActionError
from deltasql.log.commits import read_segment
from deltasql.log.table_rules import read_rules
from deltasql.protocol.actions import CheckpointMetadata, Protocol
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.log_names import checkpoint_path, commit_key
from deltasql.storage.memory import MemoryStore

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=7, writer_features=["appendOnly"])
STRINGS = pa.map_(pa.string(), pa.string())


@pytest.fixture
def store():
    return MemoryStore("memory://t")


def rules(store):
    return read_rules(store, read_segment(store))


def put(store, version, *actions):
    store.put(commit_key(version), serialize_actions(actions))


def checkpoint(**changes) -> bytes:
    """A classic checkpoint with the columns that matter, as others write them."""
    protocol = pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    )
    meta = pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", STRINGS),
            ("createdTime", pa.int64()),
        ]
    )
    rows = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "readerFeatures": None,
        "writerFeatures": ["appendOnly"],
        **changes,
    }
    found = {
        "id": metadata().id,
        "format": {"provider": "parquet", "options": []},
        "schemaString": metadata().schema_string,
        "partitionColumns": ["day"],
        "configuration": list(metadata().configuration.items()),
        "createdTime": metadata().created_time,
    }
    table = pa.table(
        {
            "add": pa.array([{"path": "f"}, None, None], pa.struct([("path", pa.string())])),
            "metaData": pa.array([None, found, None], meta),
            "protocol": pa.array([None, None, rows], protocol),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def test_the_newest_rules_win(store):
    put(store, 0, info(in_commit_timestamp=5), PROTOCOL, metadata())
    put(store, 1, info(in_commit_timestamp=9), metadata(name="renamed"))
    put(store, 2, add("f"))
    found = rules(store)
    assert (found.version, found.protocol) == (2, PROTOCOL)
    assert found.metadata == metadata(name="renamed")
    assert found.in_commit_timestamp == 9


def test_rules_come_from_a_classic_checkpoint(store):
    store.put(checkpoint_path(10), checkpoint())
    put(store, 11, info(in_commit_timestamp=9))
    found = rules(store)
    assert (found.version, found.protocol, found.metadata) == (11, PROTOCOL, metadata())


def test_rules_come_from_a_checkpoint_in_json(store):
    key = f"_delta_log/{4:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    store.put(key, serialize_actions([CheckpointMetadata(version=4), PROTOCOL, metadata()]))
    assert rules(store).metadata == metadata()


@pytest.mark.parametrize("present", [PROTOCOL, metadata()])
def test_a_log_without_both_is_refused(store, present):
    put(store, 0, info(), present)
    with pytest.raises(MalformedActionError, match="memory://t has no protocol or metadata"):
        rules(store)


def test_a_damaged_commit_is_named_by_version_and_line(store):
    put(store, 0, PROTOCOL, metadata())
    store.put(commit_key(1), serialize_actions([info()]) + b'{"add":')
    with pytest.raises(MalformedActionError, match="version 1, line 2"):
        rules(store)


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n"])
def test_an_empty_commit_is_a_damaged_one(store, content):
    put(store, 0, PROTOCOL, metadata())
    store.put(commit_key(1), content)
    with pytest.raises(MalformedActionError, match="is empty") as error:
        rules(store)
    assert error.value.context["version"] == 1


def test_numbers_spelled_by_other_writers_are_read(store):
    text = json.dumps({"protocol": {"minReaderVersion": 1.0, "minWriterVersion": "2"}})
    store.put(commit_key(0), text.encode() + b"\n" + serialize_actions([metadata()]))
    assert rules(store).protocol == Protocol(min_reader_version=1, min_writer_version=2)


@pytest.mark.req("R74")
def test_a_damaged_checkpoint_is_told_as_such_at_every_cut(store):
    whole = checkpoint()
    for keep in range(1, len(whole), 97):
        store.put(checkpoint_path(10), whole[:keep])
        with pytest.raises(MalformedActionError, match=r"checkpoint\.parquet at memory://t"):
            rules(store)


def test_a_flipped_byte_in_a_checkpoint_never_crashes(store):
    whole = checkpoint()
    refused = 0
    for at in range(0, len(whole), 7):
        store.put(checkpoint_path(10), whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            rules(store)
        except MalformedActionError:
            refused += 1
    assert refused


def test_a_checkpoint_with_other_columns_is_refused(store):
    out = io.BytesIO()
    pq.write_table(pa.table({"protocol": ["x"], "metaData": [1]}), out)
    store.put(checkpoint_path(10), out.getvalue())
    with pytest.raises(MalformedActionError, match="cannot be read"):
        rules(store)


def test_a_checkpoint_with_a_wrong_protocol_is_refused(store):
    store.put(checkpoint_path(10), checkpoint(minWriterVersion=None))
    with pytest.raises(MalformedActionError, match="minWriterVersion"):
        rules(store)
