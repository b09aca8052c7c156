"""The contract that every object store keeps, run on all of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import (
    BadArgumentError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsafePathError,
)
from deltasql.storage.conditional_put import StoreVerdict, check_conditional_put
from deltasql.storage.port import Created, ObjectStore, ObjectTag, create_once

ODD_KEYS = [
    "with space",
    "per%cent",
    "a%20b",
    "a%2520b",
    "hash#tag",
    "quest?ion=1",
    "plus+plus",
    "é",
    "日本/語",
    "k=%2F/x",
    "semi;colon:c",
    "amp&x,y",
    "quote'\"",
    "~tilde^{}|<>",
    "p=2024-01-01 10%3A00/part-0.parquet",
    "..x/x..",
    ".hidden",
    "name.tmp",
]
HOSTILE_KEYS = [
    "",
    "/abs",
    "a//b",
    "a/",
    "../x",
    "a/../../x",
    "a/./b",
    ".",
    "..",
    "nul\0x",
    "\ud800",
]


def keys_of(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [info.key for info in store.list_from(prefix, start_after)]


@pytest.mark.req("R19")
def test_second_put_of_a_key_is_refused(store: ObjectStore) -> None:
    store.put_if_absent("_delta_log/0.json", b"one")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("_delta_log/0.json", b"two")
    assert store.get("_delta_log/0.json") == b"one"


@pytest.mark.req("R19")
@pytest.mark.parametrize("size", [20, 200_000])
def test_a_race_for_a_key_has_exactly_one_winner(store: ObjectStore, size: int) -> None:
    start = threading.Barrier(8)

    def create(number: int, key: str) -> bool:
        start.wait()
        try:
            store.put_if_absent(key, bytes([number]) * size)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for round_number in range(6):
            key = f"_delta_log/{round_number}.json"
            won = list(pool.map(lambda number, key=key: create(number, key), range(8)))
            assert won.count(True) == 1, won
            assert store.get(key) == bytes([won.index(True)]) * size


def test_put_replaces_the_whole_object(store: ObjectStore) -> None:
    store.put("a/b", b"a longer first text")
    store.put("a/b", b"second")
    assert store.get("a/b") == b"second"
    assert store.head("a/b").size == 6


@pytest.mark.parametrize("data", [b"", b"\0\xff", b"x" * 300_000], ids=["empty", "binary", "long"])
def test_bytes_come_back_as_they_went(store: ObjectStore, data: bytes) -> None:
    store.put_if_absent("k", data)
    assert store.get("k") == data
    assert store.head("k").size == len(data)


def test_odd_keys_are_distinct_and_listed_as_they_are(store: ObjectStore) -> None:
    for key in ODD_KEYS:
        store.put_if_absent(f"odd/{key}", key.encode())
    assert [store.get(f"odd/{key}") for key in ODD_KEYS] == [key.encode() for key in ODD_KEYS]
    assert keys_of(store, "odd/") == sorted((f"odd/{key}" for key in ODD_KEYS), key=str.encode)
    assert {store.head(f"odd/{key}").key for key in ODD_KEYS} == {f"odd/{key}" for key in ODD_KEYS}
    for key in ODD_KEYS:
        store.delete(f"odd/{key}")
    assert keys_of(store) == []


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_hostile_keys_are_refused_by_every_operation(store: ObjectStore, key: str) -> None:
    attempts = [
        lambda: store.put_if_absent(key, b""),
        lambda: store.put(key, b""),
        lambda: store.get(key),
        lambda: store.get_range(key, 0, 1),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: store.open_input(key),
        lambda: store.open_output(key).__enter__(),
        lambda: store.local_path(key),
    ]
    for attempt in attempts:
        with pytest.raises(UnsafePathError):
            attempt()
    assert keys_of(store) == []


def test_listing_is_bytewise_recursive_and_after_the_offset(store: ObjectStore) -> None:
    keys = [
        "a-b",
        "a.b/c",
        "a/b",
        "a/c/d",
        "a/é",
        "a0",
        "b",
        "aé",
        "a/z",
        "A",
        "a/\U0001f600",
        "a/\uff5e",
    ]
    for key in keys:
        store.put(key, key.encode())
    ordered = sorted(keys, key=str.encode)
    assert keys_of(store) == ordered
    for after in [*ordered, "a", "a/", "a/b0", "zzz"]:
        expected = [key for key in ordered if key.encode() > after.encode()]
        assert keys_of(store, "", after) == expected
    inside = [key for key in ordered if key.startswith("a/")]
    assert keys_of(store, "a/") == inside
    assert keys_of(store, "a/", "a/c") == [key for key in inside if key.encode() > b"a/c"]
    assert keys_of(store, "a/", "A") == inside


def test_a_prefix_is_text_and_not_a_directory(store: ObjectStore) -> None:
    for key in ["log/0001.json", "log/0010.json", "log/0010.crc", "log/02/x", "logs/1", "lo"]:
        store.put(key, b"")
    assert keys_of(store, "log") == sorted(
        ["log/0001.json", "log/0010.json", "log/0010.crc", "log/02/x", "logs/1"]
    )
    assert keys_of(store, "log/00") == ["log/0001.json", "log/0010.crc", "log/0010.json"]
    assert keys_of(store, "log/0010.json") == ["log/0010.json"]
    assert keys_of(store, "log/00", "log/0001.json") == ["log/0010.crc", "log/0010.json"]
    assert keys_of(store, "none/") == []


def test_long_listings_are_complete(store: ObjectStore) -> None:
    keys = [f"_delta_log/{number:020d}.json" for number in range(1_050)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"{}"), keys))
    assert keys_of(store, "_delta_log/") == keys
    assert keys_of(store, "_delta_log/", keys[1_040]) == keys[1_041:]


def test_listing_tells_size_and_time(store: ObjectStore) -> None:
    store.put("k", b"12345")
    (info,) = store.list_from("")
    assert (info.key, info.size) == ("k", 5)
    assert info == store.head("k")
    assert 1_600_000_000_000 < info.modified_ms < 10_000_000_000_000


@pytest.mark.req("R35")
def test_a_put_is_answered_with_the_tag_that_a_listing_gives(store: ObjectStore) -> None:
    """So that a later listing tells whether anybody has written the object since."""
    e_tag = store.put_if_absent("a/one", b"first")
    assert e_tag
    (listed,) = store.list_from("a/")
    assert listed.tag == store.head("a/one").tag == ObjectTag(5, e_tag)
    store.put("a/one", b"other")
    (changed,) = store.list_from("a/")
    assert changed.tag != listed.tag
    assert changed.size == listed.size


def test_ranges_end_where_the_object_ends(store: ObjectStore) -> None:
    store.put("k", b"0123456789")
    assert store.get_range("k", 0, 4) == b"0123"
    assert store.get_range("k", 3, 4) == b"3456"
    assert store.get_range("k", 8, 100) == b"89"
    assert store.get_range("k", 10, 5) == b""
    assert store.get_range("k", 99, 5) == b""
    assert store.get_range("k", 2, 0) == b""
    for start, length in [(-1, 2), (0, -1)]:
        with pytest.raises(BadArgumentError):
            store.get_range("k", start, length)


def test_missing_objects_are_told_by_name(store: ObjectStore) -> None:
    store.put("there/x", b"")
    for key in ["missing", "there", "there/x/y", "no/such/directory"]:
        for attempt in (
            partial(store.get, key),
            partial(store.get_range, key, 0, 1),
            partial(store.get_range, key, 0, 0),
            partial(store.head, key),
            partial(store.open_input, key),
        ):
            with pytest.raises(ObjectNotFoundError, match=key):
                attempt()


def test_delete_is_silent_where_there_is_nothing(store: ObjectStore) -> None:
    store.put("a/b", b"")
    for key in ["a/b", "a/b", "never", "a", "x/y/z"]:
        store.delete(key)
    assert keys_of(store) == []


def test_big_objects_are_written_in_pieces(store: ObjectStore) -> None:
    piece = bytes(range(256)) * 4_096
    with store.open_output("data/big.bin") as file:
        for _ in range(12):
            assert file.write(piece) == len(piece)
        assert keys_of(store) == []
    assert store.head("data/big.bin").size == 12 * len(piece)
    assert store.get("data/big.bin") == piece * 12
    with store.open_input("data/big.bin") as file:
        file.seek(-5, 2)
        assert file.read() == piece[-5:]
        file.seek(1_000_000)
        assert file.read(2_000_000) == (piece * 3)[1_000_000:3_000_000]
        assert file.tell() == 3_000_000


@pytest.mark.parametrize("size", [0, 10, 12_000_000])
def test_an_aborted_output_leaves_nothing(store: ObjectStore, size: int) -> None:
    def give_up() -> None:
        with store.open_output("data/x.bin") as file:
            file.write(b"x" * size)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        give_up()
    assert keys_of(store) == []
    with pytest.raises(ObjectNotFoundError):
        store.head("data/x.bin")


def test_an_aborted_output_keeps_the_object_that_was_there(store: ObjectStore) -> None:
    def give_up() -> None:
        with store.open_output("k") as file:
            file.write(b"new")
            raise InterruptedError

    store.put("k", b"old")
    with pytest.raises(InterruptedError):
        give_up()
    assert store.get("k") == b"old"


def test_closing_the_output_early_does_no_harm(store: ObjectStore) -> None:
    with store.open_output("k") as file:
        file.write(b"whole")
        file.close()
    assert store.get("k") == b"whole"

    def give_up() -> None:
        with store.open_output("other") as file:
            file.write(b"part")
            file.close()
            raise InterruptedError

    with pytest.raises(InterruptedError):
        give_up()
    assert keys_of(store) == ["k"]


def test_parquet_goes_through_output_and_input(store: ObjectStore) -> None:
    table = pa.table({"id": list(range(50_000)), "name": [f"n{i % 97}" for i in range(50_000)]})
    with (
        store.open_output("part-0.parquet") as file,
        pq.ParquetWriter(file, table.schema) as writer,
    ):
        writer.write_table(table, row_group_size=10_000)
    with store.open_input("part-0.parquet") as file:
        assert pq.read_table(file, columns=["id"]).column("id").to_pylist() == list(range(50_000))


def test_local_paths_are_real_files(store: ObjectStore) -> None:
    store.put("a b/c", b"mapped")
    path = store.local_path("a b/c")
    if path is not None:
        with open(path, "rb") as file:  # noqa: PTH123 (as a reader would)
            assert file.read() == b"mapped"


def test_create_once_tells_ours_from_theirs(store: ObjectStore) -> None:
    key = "_delta_log/00000000000000000000.json"
    assert create_once(store, key, b"ours") is Created.CREATED
    assert create_once(store, key, b"ours") is Created.SAME
    assert create_once(store, key, b"theirs") is Created.DIFFERENT
    assert store.get(key) == b"ours"


@pytest.mark.req("R19")
def test_the_self_check_finds_the_store_honest_and_leaves_no_trace(store: ObjectStore) -> None:
    assert check_conditional_put(store, "r1") is StoreVerdict.HONOURS
    assert keys_of(store) == []


def test_no_uri_or_repr_shows_a_secret(store: ObjectStore) -> None:
    for text in (store.uri, repr(store), str(store)):
        assert "testsecret1" not in text
        assert "Eby8vdM0" not in text
