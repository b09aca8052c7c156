"""Create once and the self-check, over stores that fail on a script."""

from __future__ import annotations

import pytest

from builders import some
from deltasql.errors import (
    AccessDeniedError,
    ObjectExistsError,
    StorageUnavailableError,
    UnsafeStoreError,
)
from deltasql.storage.conditional_put import StoreVerdict, check_conditional_put
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import Created, Creation, create_once, create_tagged
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind, RandomFaults

KEY = "_delta_log/00000000000000000007.json"


def faulty(*faults: Fault) -> FaultyStore:
    return FaultyStore(MemoryStore(), faults)


@pytest.mark.req("R9")
@pytest.mark.parametrize("kind", [Kind.FAIL_AFTER, Kind.EXISTS_THOUGH_OURS])
def test_our_own_object_is_recognised(kind: Kind) -> None:
    store = faulty(Fault(kind, "put_if_absent"))
    assert create_once(store, KEY, b"ours") is Created.SAME
    assert [call.operation for call in store.calls] == ["put_if_absent", "get"]


def test_the_tag_is_that_of_our_own_put_and_costs_no_request() -> None:
    store = faulty()
    created = create_tagged(store, KEY, b"ours")
    assert [call.operation for call in store.calls] == ["put_if_absent"]
    assert created == Creation(Created.CREATED, store.head(KEY).tag)
    assert created.tag is not None
    assert create_tagged(store, KEY, b"ours") == Creation(Created.SAME)
    assert create_tagged(store, KEY, b"other") == Creation(Created.DIFFERENT)


@pytest.mark.parametrize("kind", [Kind.FAIL_BEFORE, Kind.EXISTS_WITHOUT_EFFECT])
def test_nothing_there_is_for_the_caller_to_try_again(kind: Kind) -> None:
    store = faulty(Fault(kind, "put_if_absent"))
    with pytest.raises(StorageUnavailableError):
        create_once(store, KEY, b"ours")
    assert create_once(store, KEY, b"ours") is Created.CREATED


@pytest.mark.req("R10")
@pytest.mark.parametrize("kind", [Kind.FAIL_BEFORE, Kind.EXISTS_WITHOUT_EFFECT])
def test_foreign_bytes_are_different_and_stay(kind: Kind) -> None:
    store = faulty(Fault(kind, "put_if_absent", skip=1))
    store.put_if_absent(KEY, b"theirs")
    assert create_once(store, KEY, b"ours") is Created.DIFFERENT
    assert store.get(KEY) == b"theirs"


def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(AccessDeniedError):
        create_once(faulty(Fault(Kind.DENIED, "put_if_absent")), KEY, b"ours")


def test_a_stale_read_back_is_for_the_caller_to_try_again() -> None:
    store = faulty(Fault(Kind.FAIL_AFTER, "put_if_absent"), Fault(Kind.STALE_READ, "get"))
    with pytest.raises(StorageUnavailableError):
        create_once(store, KEY, b"ours")
    assert create_once(store, KEY, b"ours") is Created.SAME


@pytest.mark.req("R9")
@pytest.mark.parametrize("seed", range(200))
def test_under_any_faults_a_retried_create_ends_with_our_bytes(seed: int) -> None:
    kinds = [kind for kind in Kind if kind not in {Kind.DENIED, Kind.DELAY}]
    inner = MemoryStore()
    store = FaultyStore(inner, RandomFaults(seed, rate=0.6, kinds=kinds))
    outcomes = []
    for _ in range(60):
        try:
            outcomes.append(create_once(store, KEY, b"ours"))
            break
        except StorageUnavailableError:
            continue
    assert outcomes in ([Created.CREATED], [Created.SAME])
    assert inner.get(KEY) == b"ours"


class Careless(MemoryStore):
    """Ignores the condition."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        self.put(key, data)


class Liar(MemoryStore):
    """Says "exists" and overwrites all the same."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        existed = [info.key for info in self.list_from(key)]
        self.put(key, data)
        if existed:
            raise ObjectExistsError


class Incapable(MemoryStore):
    """Has no conditional writes at all."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        raise UnsafeStoreError


@pytest.mark.req("R19")
@pytest.mark.parametrize("kind", [Careless, Liar, Incapable])
def test_a_store_that_breaks_the_promise_is_found(kind: type[MemoryStore]) -> None:
    store = kind()
    assert check_conditional_put(store, "r") is StoreVerdict.IGNORES
    assert list(store.list_from("")) == []


@pytest.mark.parametrize(("kind", "skip"), [(Kind.FAIL_AFTER, 0), (Kind.FAIL_BEFORE, 3)])
def test_a_check_that_fails_cleans_up_and_judges_nothing(kind: Kind, skip: int) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, [Fault(kind, "put_if_absent", skip=skip)])
    with pytest.raises(StorageUnavailableError):
        check_conditional_put(store, "r")
    assert list(inner.list_from("")) == []
    assert all("_delta_log/_deltasql_probe_r" in call.key for call in some(store.calls))


def test_a_probe_that_cannot_be_removed_does_not_change_the_verdict() -> None:
    store = faulty(Fault(Kind.DENIED, "delete", times=None))
    assert check_conditional_put(store, "r") is StoreVerdict.HONOURS
