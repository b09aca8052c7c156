"""Checkpoints of every kind: one file, parts, V2 with sidecars; and what is wrong with them."""

import uuid

import pyarrow as pa
import pytest

from builders import a_remove, an_add
from commits import metadata
from deltasql.errors import StorageUnavailableError
from deltasql.log.checkpoint_reader import CheckpointPart, checkpoint_parts, read_files, read_head
from deltasql.protocol.actions import (
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    Sidecar,
    Txn,
)
from deltasql.protocol.codec import serialize_actions
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, checkpoint_path
from deltasql.storage.memory import MemoryStore
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind
from foreign_checkpoints import ADD, LONG, PLAIN_ADD, TEXT, refused, whole_table
from naive_checkpoints import CLASSIC, KEY, VERSION, fast_rows, parquet, stored


def test_the_head_is_everything_but_files():
    txn = {"appId": "a", "version": 3, "lastUpdated": None}
    domain = {"domain": "d", "configuration": "{}", "removed": False}
    store = stored(parquet(whole_table(txn=txn, domainMetadata=domain)))
    protocol, about, *rest = read_head(store, CLASSIC)
    assert protocol == Protocol(min_reader_version=1, min_writer_version=2)
    assert isinstance(about, Metadata)
    assert (about.partition_columns, about.configuration) == (["day"], {})
    assert rest == [
        Txn(app_id="a", version=3),
        DomainMetadata(domain="d", configuration="{}", removed=False),
    ]


def test_a_head_of_an_old_writer_has_no_txn_and_no_domain():
    assert len(read_head(stored(parquet(whole_table())), CLASSIC)) == 2


@pytest.mark.req("R73")
@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_a_head_without_protocol_or_metadata_is_refused(kind):
    table = whole_table().drop_columns([kind])
    refused(lambda: read_head(stored(parquet(table)), CLASSIC), KEY, kind)


@pytest.mark.req("R73")
def test_a_head_with_two_protocols_is_refused_and_one_told_twice_is_one():
    table = whole_table()
    twice = pa.concat_tables([table, table])
    assert len(read_head(stored(parquet(twice)), CLASSIC)) == 2
    other = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    more = pa.concat_tables([table, pa.Table.from_pylist([other], schema=table.schema)])
    refused(lambda: read_head(stored(parquet(more)), CLASSIC), KEY, "protocol")


def test_removes_give_tombstones():
    _, (row,) = fast_rows(stored(parquet(whole_table())))
    assert (row["path"], row["deletion_timestamp"], row["remove_data_change"]) == ("old", 7, False)
    assert row["partition_values"] is None


def test_a_checkpoint_without_rows_has_no_files():
    store = stored(parquet(whole_table().slice(0, 0)))
    assert fast_rows(store) == ([], [])
    refused(lambda: read_head(store, CLASSIC), KEY)


@pytest.mark.req("R76")
def test_parts_are_runs_of_row_groups():
    rows = [{**ADD, "path": f"p{n}"} for n in range(100)]
    store = stored(parquet(pa.table({"add": pa.array(rows, PLAIN_ADD)}), row_group_size=10))
    parts = checkpoint_parts(store, CLASSIC, most_rows=35)
    assert parts == [
        CheckpointPart(KEY, VERSION, (start, min(start + 3, 10)), rows)
        for start, rows in ((0, 30), (3, 30), (6, 30), (9, 10))
    ]
    assert parts == checkpoint_parts(store, CLASSIC, most_rows=35)
    found = [b.adds.column("path").to_pylist() for part in parts for b in read_files(store, part)]
    assert [path for batch in found for path in batch] == [f"p{n}" for n in range(100)]
    assert len(checkpoint_parts(store, CLASSIC)) == 1


@pytest.mark.req("R76")
def test_of_a_big_remote_file_only_what_is_needed_is_copied():
    # longer than what is taken whole into memory, without a file of its own on the disk
    noise = [uuid.UUID(int=n * 7919 << 64 | n).hex * 12 for n in range(60_000)]
    rows = [{**ADD, "path": text[:40], "stats": text} for text in noise]
    table = pa.table({"add": pa.array(rows, PLAIN_ADD), "unread": pa.array(noise)})
    data = parquet(table, compression="none", use_dictionary=False, row_group_size=20_000)
    assert len(data) > 2**24
    found, _ = fast_rows(stored(data), most_rows=20_000)
    assert [row["stats"] for row in found] == noise


def multipart(part: int, parts: int) -> LogFile:
    return LogFile.parse(f"{VERSION:020d}.checkpoint.{part:010d}.{parts:010d}.parquet")


def test_all_parts_of_a_set_are_read_and_a_missing_one_is_named():
    files = [multipart(1, 2), multipart(2, 2)]
    table = whole_table()
    store = MemoryStore()
    store.put(files[0].key, parquet(table.slice(0, 2)))
    store.put(files[1].key, parquet(table.slice(2)))
    assert len(read_head(store, files)) == 2
    adds, removes = fast_rows(store, files)
    assert (len(adds), len(removes)) == (1, 1)
    refused(lambda: checkpoint_parts(store, files[:1]), "complete")
    refused(lambda: read_head(store, files[::-1]), "complete")
    store.delete(files[1].key)
    refused(lambda: checkpoint_parts(store, files), files[1].key)
    refused(lambda: read_head(store, files), files[1].key)


UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
JSON = LogFile.parse(f"{VERSION:020d}.checkpoint.{UUID}.json")
SIDECAR_FOLDER = f"{LOG_FOLDER}_sidecars/"
HEAD = (
    CheckpointMetadata(version=VERSION),
    Protocol(min_reader_version=3, min_writer_version=7, reader_features=[], writer_features=[]),
    metadata(),
)


def a_sidecar(path: str) -> Sidecar:
    return Sidecar(path=path, size_in_bytes=1, modification_time=1)


def v2_json(*actions) -> MemoryStore:
    store = stored(serialize_actions([*HEAD, *actions]), JSON.key)
    for name, path in (("one.parquet", "a"), ("two.parquet", "b")):
        rows = pa.array([{**ADD, "path": path}], PLAIN_ADD)
        store.put(SIDECAR_FOLDER + name, parquet(pa.table({"add": rows})))
    return store


def test_a_v2_checkpoint_in_json_brings_its_sidecars():
    store = v2_json(a_sidecar("two.parquet"), a_sidecar("one.parquet"), a_sidecar("two.parquet"))
    parts = checkpoint_parts(store, [JSON])
    assert [part.key.removeprefix(SIDECAR_FOLDER) for part in parts] == [
        "one.parquet",  # as the lines of the file name them, each once
        "two.parquet",
    ]
    assert {row["path"] for row in fast_rows(store, [JSON])[0]} == {"a", "b"}
    assert list(read_head(store, [JSON])) == list(HEAD[1:])


def test_a_v2_checkpoint_in_json_may_hold_its_files_itself():
    add = an_add("/abs", tags={"t": "u"}, extra={"later": 1})
    remove = a_remove(an_add("gone"), deletion_timestamp=8)
    adds, removes = fast_rows(v2_json(add, remove), [JSON])
    assert [row["path"] for row in adds] == ["/abs"]
    assert (adds[0]["unknown_fields"], adds[0]["tags"]) == ('{"later":1}', '{"t":"u"}')
    assert adds[0]["num_records"] == 10
    assert [(row["path"], row["deletion_timestamp"]) for row in removes] == [("gone", 8)]


@pytest.mark.parametrize("name", [checkpoint_path(VERSION), JSON.key.replace("json", "parquet")])
def test_a_v2_checkpoint_in_parquet_may_have_any_name(name):
    store = v2_json()
    file = LogFile.parse(name.removeprefix(LOG_FOLDER))
    table = whole_table().drop_columns(["add", "remove"])
    sidecar = pa.struct([("path", TEXT), ("sizeInBytes", LONG), ("modificationTime", LONG)])
    column = [{"path": "one.parquet", "sizeInBytes": 1, "modificationTime": 1}]
    missing = [None] * (table.num_rows - 1)
    whole = table.append_column("sidecar", pa.array([*column, *missing], sidecar))
    store.put(name, parquet(whole))
    assert [row["path"] for row in fast_rows(store, [file])[0]] == ["a"]
    assert len(read_head(store, [file])) == 2


@pytest.mark.req("R73")
@pytest.mark.parametrize(
    "path",
    [
        "s3://other/_delta_log/_sidecars/one.parquet",
        "/etc/passwd",
        "../../secret.parquet",
        "%2e%2e%2fone.parquet",
        "..",
        "",
        "a\\b",
    ],
)
def test_a_sidecar_that_is_not_a_name_in_its_folder_is_refused(path):
    refused(lambda: checkpoint_parts(v2_json(a_sidecar(path)), [JSON]), JSON.key, "sidecar")


@pytest.mark.req("R73")
def test_a_missing_sidecar_is_named():
    store = v2_json(a_sidecar("three.parquet"))
    refused(lambda: checkpoint_parts(store, [JSON]), SIDECAR_FOLDER + "three.parquet")


@pytest.mark.req("R73")
def test_a_v2_checkpoint_of_another_version_is_refused():
    store = stored(serialize_actions([CheckpointMetadata(version=99), *HEAD[1:]]), JSON.key)
    refused(lambda: checkpoint_parts(store, [JSON]), "99")
    refused(lambda: read_head(store, [JSON]), "99")


@pytest.mark.req("R73")
def test_a_broken_line_of_a_v2_checkpoint_is_named():
    store = v2_json()
    lines = store.get(JSON.key).splitlines(keepends=True)
    store.put(JSON.key, b"".join([*lines, b'{"add":{"path":1}}\n']))
    refused(lambda: read_head(store, [JSON]), JSON.key, f"line {len(lines) + 1}")
    store.put(JSON.key, b"")
    refused(lambda: read_head(store, [JSON]), JSON.key, "empty")


@pytest.mark.req("R73")
@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"x" * 100, b"PAR1" + b"\0" * 40 + b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1"],
)
def test_what_is_no_parquet_is_refused(data):
    store = stored(data)
    refused(lambda: checkpoint_parts(store, CLASSIC), KEY)
    refused(lambda: read_head(store, CLASSIC), KEY)
    part = CheckpointPart(KEY, VERSION, (0, 1))
    refused(lambda: list(read_files(store, part)), KEY)


@pytest.mark.req("R73")
def test_a_file_without_any_column_of_a_checkpoint_is_refused():
    table = pa.table({"something": [1]})
    refused(lambda: checkpoint_parts(stored(parquet(table)), CLASSIC), KEY, "no column of a")


@pytest.mark.req("R73")
def test_a_checkpoint_without_adds_in_its_schema_has_none():
    table = whole_table().drop_columns(["add"])
    store = stored(parquet(table))
    batches = [b for p in checkpoint_parts(store, CLASSIC) for b in read_files(store, p)]
    assert sum(batch.adds.num_rows for batch in batches) == 0
    assert sum(batch.removes.num_rows for batch in batches) > 0


@pytest.mark.req("R73")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("remove", "semove"), ("txn", "tyn"), ("deletionTimestamp", "deletionTimestamq")],
)
def test_a_name_with_a_wrong_character_is_damage(right, wrong):
    txn = {"appId": "a", "version": 3, "lastUpdated": None}
    data = parquet(whole_table(txn=txn), store_schema=False, write_page_checksum=False)
    damaged = stored(data.replace(right.encode(), wrong.encode()))
    refused(lambda: fast_rows(damaged), wrong, right)


@pytest.mark.req("R73")
@pytest.mark.parametrize("wrong", ["stat", "", "stats\x15\x02"])
def test_a_name_whose_length_is_wrong_is_damage(wrong):
    fields = [(wrong if field.name == "stats" else field.name, field.type) for field in PLAIN_ADD]
    row = {**ADD, wrong: ADD["stats"]}
    table = pa.table({"add": pa.array([row], pa.struct(fields))})
    refused(lambda: fast_rows(stored(parquet(table))), KEY, "damaged")


def test_a_new_name_that_begins_like_another_is_no_damage():
    fields = [pa.field("statsOfTomorrow", TEXT), *(f for f in PLAIN_ADD if f.name != "stats")]
    table = pa.table({"add": pa.array([{**ADD, "statsOfTomorrow": "x"}], pa.struct(fields))})
    (row,), _ = fast_rows(stored(parquet(table)))
    assert (row["stats"], row["unknown_fields"]) == (None, '{"statsOfTomorrow":"x"}')


@pytest.mark.req("R73")
def test_columns_of_one_name_are_refused():
    one = pa.array([ADD], PLAIN_ADD)
    table = pa.Table.from_arrays([one, one], names=["add", "add"])
    refused(lambda: checkpoint_parts(stored(parquet(table)), CLASSIC), KEY)


def test_a_store_that_does_not_answer_is_no_damage():
    store = stored(parquet(whole_table()))
    for fault in ("open_input", "get_range"):
        ill = FaultyStore(store, [Fault(operation=fault, kind=Kind.FAIL_BEFORE, times=None)])
        with pytest.raises(StorageUnavailableError):
            fast_rows(ill)


def test_a_part_that_the_file_does_not_have_is_refused():
    store = stored(parquet(whole_table()))
    refused(lambda: list(read_files(store, CheckpointPart(KEY, VERSION, (0, 5)))), KEY)


def test_an_error_is_one_line_and_tells_what_to_do():
    error = refused(lambda: checkpoint_parts(stored(b"\x00" * 50), CLASSIC), KEY)
    assert "\n" not in error.message
    assert error.context == {"version": VERSION, "key": KEY}
    assert "restore" in error.advice


@pytest.mark.req("R76")
def test_a_row_group_of_very_many_rows_is_read_in_long_batches():
    count = 700_000
    values = {
        "path": pa.array(range(count)).cast(TEXT),
        "partitionValues": pa.array([[]], PLAIN_ADD.field("partitionValues").type),
        "size": pa.array(range(count)),
        "modificationTime": pa.array(range(count)),
        "dataChange": pa.nulls(count, pa.bool_()),
        "stats": pa.nulls(count, TEXT),
    }
    one = values["partitionValues"]
    values["partitionValues"] = one.take(pa.nulls(count, pa.int32()).fill_null(0))
    adds = pa.StructArray.from_arrays(list(values.values()), names=list(values))
    head = whole_table().select(["protocol", "metaData"])
    table = pa.concat_tables([head, pa.table({"add": adds})], promote_options="default")
    store = stored(parquet(table, row_group_size=count + 4))
    assert len(read_head(store, CLASSIC)) == 2
    (part,) = checkpoint_parts(store, CLASSIC)
    lengths = [batch.adds.num_rows for batch in read_files(store, part)]
    assert sum(lengths) == count
    assert len(lengths) < 50
