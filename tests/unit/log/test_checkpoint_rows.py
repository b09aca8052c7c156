"""Files of checkpoints in SQL's columns, however their writers spell them."""

import pyarrow as pa
import pytest

from foreign_checkpoints import ADD, LONG, MAP, PLAIN_ADD, TEXT, refused
from naive_checkpoints import KEY, fast_rows, parquet, stored


def adds_of(rows: list[dict | None], kind: pa.DataType = PLAIN_ADD, **options) -> list[dict]:
    table = pa.table({"add": pa.array(rows, kind)})
    return fast_rows(stored(parquet(table, **options)))[0]


def without(struct: pa.DataType, *names: str) -> pa.DataType:
    return pa.struct([field for field in struct if field.name not in names])


def with_types(struct: pa.DataType, **kinds: pa.DataType) -> pa.DataType:
    return pa.struct([(field.name, kinds.get(field.name, field.type)) for field in struct])


def test_an_add_gives_the_row_that_its_commit_would():
    (row,) = adds_of([ADD, None])
    assert row == {
        "path": "p",
        "dv_id": "",
        "size": 5,
        "modification_time": 6,
        "partition_values": '{"day":"a"}',
        "stats": '{"numRecords":3}',
        "num_records": 3,
        "tags": None,
        "deletion_vector": None,
        "base_row_id": None,
        "default_row_commit_version": None,
        "clustering_provider": None,
        "data_change": False,
        "unknown_fields": None,
    }


def test_partition_values_stay_as_they_are_in_the_file():
    rows = [{**ADD, "partitionValues": [("b", value), ("a", "1")]} for value in (None, "", "x")]
    found = [row["partition_values"] for row in adds_of([*rows, {**ADD, "partitionValues": []}])]
    assert found == ['{"a":"1","b":null}', '{"a":"1","b":""}', '{"a":"1","b":"x"}', "{}"]


def test_paths_stay_as_they_are_in_the_file():
    paths = ["/x/y", "file:/x/y", "file:///x/y", "s3://b/x", "x/y"]
    found = adds_of([{**ADD, "path": path} for path in paths])
    assert [row["path"] for row in found] == paths


@pytest.mark.parametrize(
    "kind",
    [
        with_types(PLAIN_ADD, path=pa.large_string(), stats=pa.large_string()),
        with_types(PLAIN_ADD, path=pa.binary(), stats=pa.binary()),
        with_types(PLAIN_ADD, path=pa.string_view()),
        with_types(PLAIN_ADD, stats=pa.dictionary(pa.int32(), TEXT)),
        with_types(PLAIN_ADD, size=pa.int32(), modificationTime=pa.int32()),
        with_types(PLAIN_ADD, partitionValues=pa.map_(pa.large_string(), pa.large_string())),
        with_types(PLAIN_ADD, partitionValues=pa.map_(pa.binary(), pa.binary())),
    ],
    ids=str,
)
@pytest.mark.parametrize("keeps_types", [True, False])
def test_other_spellings_of_a_type_are_read(kind, keeps_types):
    assert adds_of([ADD], kind, store_schema=keeps_types) == adds_of([ADD])


def test_whether_rows_change_may_be_left_out():
    for rows in (
        adds_of([{**ADD, "dataChange": None}]),
        adds_of([ADD], without(PLAIN_ADD, "dataChange")),
    ):
        assert rows[0]["data_change"] is False
    assert adds_of([{**ADD, "dataChange": True}])[0]["data_change"] is True


def test_a_struct_of_nulls_is_no_action():
    nothing = dict.fromkeys(ADD)
    assert len(adds_of([ADD, nothing, None, ADD])) == 2


@pytest.mark.req("R73")
@pytest.mark.parametrize("field", ["path", "partitionValues", "size", "modificationTime"])
def test_an_add_that_lacks_what_it_must_have_is_refused(field):
    refused(lambda: adds_of([ADD, {**ADD, field: None}]), KEY)
    refused(lambda: adds_of([ADD], without(PLAIN_ADD, field)), KEY)


@pytest.mark.req("R73")
@pytest.mark.parametrize(
    ("field", "kind", "value"),
    [
        ("size", TEXT, "5"),
        ("size", pa.float64(), 5.0),
        ("path", LONG, 1),
        ("dataChange", TEXT, "true"),
        ("stats", pa.struct([("numRecords", LONG)]), {"numRecords": 1}),
        ("partitionValues", pa.struct([("day", TEXT)]), {"day": "a"}),
        ("partitionValues", pa.map_(TEXT, LONG), [("day", 1)]),
        ("size", pa.uint64(), 2**64 - 1),
        ("path", pa.binary(), b"\xff\xfe"),
        ("stats", pa.binary(), b"\xff\xfe"),
        ("partitionValues", pa.map_(TEXT, pa.binary()), [("day", b"\xc3\x28")]),
    ],
)
def test_a_field_of_another_type_is_refused(field, kind, value):
    row, struct = {**ADD, field: value}, with_types(PLAIN_ADD, **{field: kind})
    refused(lambda: adds_of([row], struct, store_schema=False), KEY, field)


@pytest.mark.req("R79")
def test_texts_that_are_no_utf8_are_refused():
    # Parquet says that it is text, and nobody checked
    good = parquet(pa.table({"add": pa.array([ADD], PLAIN_ADD)}), compression="none")
    damaged = parquet(
        pa.table({"add": pa.array([{**ADD, "path": "Q"}], PLAIN_ADD)}),
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=False,
    ).replace(b"\x01\x00\x00\x00Q", b"\x01\x00\x00\x00\xff")
    assert fast_rows(stored(good))[0][0]["path"] == "p"
    refused(lambda: fast_rows(stored(damaged)), KEY)


def test_unknown_fields_are_kept_and_unknown_actions_passed_over():
    future = pa.struct([*PLAIN_ADD, pa.field("later", MAP), pa.field("raw", pa.binary())])
    row = {**ADD, "later": [("k", "v")], "raw": b"\xff"}
    table = pa.table(
        {
            "add": pa.array([row, ADD, None], future),
            "tomorrow": pa.array([None, None, {"x": 1}], pa.struct([("x", LONG)])),
        }
    )
    found, _ = fast_rows(stored(parquet(table)))
    assert [one["unknown_fields"] for one in found] == ['{"later":{"k":"v"},"raw":"/w=="}', None]


def test_deletion_vectors_are_part_of_the_identity():
    vector = pa.struct(
        [
            ("storageType", TEXT),
            ("pathOrInlineDv", TEXT),
            ("offset", pa.int32()),
            ("sizeInBytes", pa.int32()),
            ("cardinality", LONG),
            ("maxRowIndex", LONG),
        ]
    )
    kind = pa.struct([*PLAIN_ADD, pa.field("deletionVector", vector)])
    told = {"storageType": "u", "pathOrInlineDv": "ab", "sizeInBytes": 4, "cardinality": 2}
    vectors = [{**told, "offset": 1}, None, told, dict.fromkeys(told)]
    found = adds_of([{**ADD, "deletionVector": one} for one in vectors], kind)
    assert [row["dv_id"] for row in found] == ["uab@1", "", "uab", ""]
    assert found[0]["deletion_vector"] == (
        '{"cardinality":2,"offset":1,"pathOrInlineDv":"ab","sizeInBytes":4,"storageType":"u"}'
    )
    assert [row["deletion_vector"] is None for row in found] == [False, True, False, True]
    half = [{**ADD, "deletionVector": {"storageType": "u"}}]
    refused(lambda: adds_of(half, kind), KEY, "cardinality")


PARSED = pa.struct([("numRecords", LONG), ("minValues", pa.struct([("id", LONG)]))])
TWINS = pa.struct(
    [
        *PLAIN_ADD,
        pa.field("stats_parsed", PARSED),
        pa.field("partitionValues_parsed", pa.struct([("day", pa.date32()), ("n", pa.int32())])),
    ]
)


@pytest.mark.parametrize("start", [0, 1, 39_999])
def test_typed_statistics_stand_in_where_the_text_is_missing(start):
    parsed = {"numRecords": 9, "minValues": {"id": 1}}
    rows = [
        {**ADD, "stats_parsed": parsed, "stats": None if n >= start else f"text {n}"}
        for n in range(40_000)
    ]
    found = adds_of(rows, TWINS)
    assert len(found) == 40_000
    expected = '{"numRecords":9,"minValues":{"id":1}}'
    assert {row["stats"] for row in found[start:]} == {expected}
    assert [row["stats"] for row in found[:start]] == [f"text {n}" for n in range(start)]
    assert found[-1]["num_records"] == 9
    assert found[-1]["unknown_fields"] is None


def test_typed_statistics_alone_are_enough():
    row = {**ADD, "stats_parsed": {"numRecords": 9, "minValues": None}}
    (found,) = adds_of([row], without(TWINS, "stats"))
    assert (found["stats"], found["num_records"]) == ('{"numRecords":9}', 9)


def test_typed_partition_values_are_used_only_where_the_texts_are_missing():
    typed = {"day": 19_000, "n": None}
    row = {**ADD, "partitionValues_parsed": typed}
    assert adds_of([row], TWINS)[0]["partition_values"] == '{"day":"a"}'
    expected = '{"day":"2022-01-08","n":null}'
    missing = {**row, "partitionValues": None}
    assert adds_of([missing], TWINS)[0]["partition_values"] == expected
    (found,) = adds_of([row], without(TWINS, "partitionValues"))
    assert found["partition_values"] == expected
