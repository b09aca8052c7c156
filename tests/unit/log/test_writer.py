"""One version, written exactly once, whatever the store answers."""

import pytest

from deltasql.errors import AccessDeniedError, MirrorConflictError, StorageUnavailableError
from deltasql.log.commits import write_commit
from deltasql.protocol.log_names import commit_key
from deltasql.storage.memory import MemoryStore
from deltasql.storage.port import Created
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind

PAYLOAD = b'{"commitInfo":{}}\n'
KEY = commit_key(3)


def faulty(kind: Kind, inner: MemoryStore | None = None) -> FaultyStore:
    return FaultyStore(inner or MemoryStore(), [Fault(kind, "put_if_absent")])


@pytest.mark.req("R9", "R19")
def test_the_first_write_creates_and_the_second_finds_the_same():
    store = MemoryStore()
    assert write_commit(store, 3, PAYLOAD).outcome is Created.CREATED
    assert write_commit(store, 3, PAYLOAD).outcome is Created.SAME
    assert store.get(KEY) == PAYLOAD


@pytest.mark.req("R10", "R28")
def test_other_bytes_are_a_conflict_and_stay_untouched():
    store = MemoryStore("memory://t")
    store.put(KEY, b"theirs")
    with pytest.raises(MirrorConflictError, match="version 3") as error:
        write_commit(store, 3, PAYLOAD)
    assert error.value.context == {"key": KEY, "version": 3}
    assert store.get(KEY) == b"theirs"


@pytest.mark.parametrize("kind", [Kind.FAIL_AFTER, Kind.EXISTS_THOUGH_OURS])
def test_a_lost_answer_is_resolved_by_reading_back(kind):
    store = faulty(kind)
    assert write_commit(store, 3, PAYLOAD).outcome is Created.SAME
    assert store.get(KEY) == PAYLOAD


@pytest.mark.parametrize("kind", [Kind.FAIL_BEFORE, Kind.EXISTS_WITHOUT_EFFECT])
def test_nothing_there_means_try_again(kind):
    store = faulty(kind)
    with pytest.raises(StorageUnavailableError) as error:
        write_commit(store, 3, PAYLOAD)
    assert error.value.retryable
    assert write_commit(store, 3, PAYLOAD).outcome is Created.CREATED


def test_a_failure_before_other_bytes_is_still_a_conflict():
    inner = MemoryStore()
    inner.put(KEY, b"theirs")
    with pytest.raises(MirrorConflictError):
        write_commit(faulty(Kind.FAIL_BEFORE, inner), 3, PAYLOAD)


def test_a_refusal_is_told_as_one():
    with pytest.raises(AccessDeniedError):
        write_commit(faulty(Kind.DENIED), 3, PAYLOAD)
