"""The faulty store does what its script says, and nothing else."""

from __future__ import annotations

import pytest

from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import ObjectStore
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind, RandomFaults


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore()


def keys_of(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list_from("")]


def test_without_a_script_it_is_the_store_inside(inner: MemoryStore) -> None:
    store = FaultyStore(inner)
    assert isinstance(store, ObjectStore)
    store.put_if_absent("a", b"1")
    store.put("b", b"2")
    with store.open_output("c") as file:
        file.write(b"3")
    with store.open_input("c") as file:
        assert file.read() == b"3"
    assert (store.get("a"), store.get_range("b", 0, 9), store.head("c").size) == (b"1", b"2", 1)
    store.delete("a")
    assert keys_of(store) == keys_of(inner) == ["b", "c"]
    assert {call.kind for call in store.calls} == {None}


def test_before_and_after_differ_in_the_effect(inner: MemoryStore) -> None:
    store = FaultyStore(inner, [Fault(Kind.FAIL_BEFORE, "put*"), Fault(Kind.FAIL_AFTER, "put*")])
    for expected in ([], ["k"]):
        with pytest.raises(StorageUnavailableError):
            store.put_if_absent("k", b"")
        assert keys_of(inner) == expected
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("k", b"")


def test_an_output_fails_when_it_is_completed(inner: MemoryStore) -> None:
    store = FaultyStore(
        inner, [Fault(Kind.FAIL_BEFORE, "open_output"), Fault(Kind.FAIL_AFTER, "open_output")]
    )
    for expected in ([], ["k"]):
        with pytest.raises(StorageUnavailableError), store.open_output("k") as file:
            file.write(b"1")
        assert keys_of(inner) == expected


def test_faults_pick_their_calls_by_operation_key_and_count(inner: MemoryStore) -> None:
    inner.put("log/1", b"")
    inner.put("data/1", b"")
    store = FaultyStore(inner, [Fault(Kind.DENIED, "get", "log/*", times=2, skip=1)])
    outcomes = []
    for _ in range(5):
        store.get("data/1")
        store.head("log/1")
        try:
            store.get("log/1")
            outcomes.append("ok")
        except AccessDeniedError:
            outcomes.append("denied")
    assert outcomes == ["ok", "denied", "denied", "ok", "ok"]


def test_a_fault_without_an_end_strikes_for_ever(inner: MemoryStore) -> None:
    store = FaultyStore(inner, [Fault(Kind.FAIL_BEFORE, times=None)])
    for _ in range(20):
        with pytest.raises(StorageUnavailableError):
            store.put("k", b"")


def test_a_delay_sleeps_by_the_function_given(inner: MemoryStore) -> None:
    slept: list[float] = []
    store = FaultyStore(inner, [Fault(Kind.DELAY, "put", seconds=30)], sleep=slept.append)
    store.put("k", b"1")
    assert slept == [30]
    assert inner.get("k") == b"1"


def test_reads_can_be_cut_or_old(inner: MemoryStore) -> None:
    store = FaultyStore(
        inner,
        [
            Fault(Kind.TRUNCATE, "get", keep=3),
            Fault(Kind.STALE_READ, "get"),
            Fault(Kind.STALE_READ, "head"),
            Fault(Kind.STALE_READ, "get", "new"),
            Fault(Kind.STALE_READ, "get", "foreign"),
        ],
    )
    store.put("k", b"first")
    store.put("k", b"second text")
    assert store.get("k") == b"sec"
    assert store.get("k") == b"first"
    assert store.head("k").size == 5
    assert store.get("k") == b"second text"
    store.put("new", b"1")
    with pytest.raises(ObjectNotFoundError):
        store.get("new")
    inner.put("foreign", b"not through us")
    assert store.get("foreign") == b"not through us"


def test_a_stale_listing_misses_the_newest(inner: MemoryStore) -> None:
    store = FaultyStore(inner, [Fault(Kind.STALE_LIST, newest=2)])
    for key in "abcd":
        store.put(key, b"")
    assert keys_of(store) == ["a", "b"]
    assert keys_of(store) == ["a", "b", "c", "d"]


def test_reads_of_parts_fail_one_by_one(inner: MemoryStore) -> None:
    inner.put("k", b"x" * 600_000)
    store = FaultyStore(inner, [Fault(Kind.FAIL_BEFORE, "get_range", skip=1)])
    with store.open_input("k") as file:
        assert file.read(100) == b"x" * 100
        with pytest.raises(StorageUnavailableError):
            file.read()


@pytest.mark.parametrize("seed", [1, 2])
def test_chance_is_the_same_for_the_same_seed(seed: int) -> None:
    def run() -> list[tuple[str, Kind | None]]:
        store = FaultyStore(MemoryStore(), RandomFaults(seed, 0.5), sleep=lambda _: None)
        for number in range(50):
            for attempt in (store.get, store.head, store.delete):
                try:
                    store.put_if_absent(f"k{number}", b"1")
                    attempt(f"k{number}")
                except (StorageUnavailableError, AccessDeniedError, LookupError, ObjectExistsError):
                    continue
        return [(call.operation, call.kind) for call in store.calls]

    first = run()
    assert first == run()
    assert len({kind for _, kind in first}) > 5
